"""TOML files that describe experiments: those that come with feddiv, and a user's own."""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any, Final

from feddiv.core.did_you_mean import did_you_mean
from feddiv.core.errors import UserError
from feddiv.core.given_files import read_given
from feddiv.core.toml import NotToml, parse_toml

RUN_CONFIG: Final = "config.toml"  # in a run's folder: its experiment


def presets() -> dict[str, str]:
    """Preset names and their descriptions."""
    trees = {name: tomllib.loads(_preset(name)) for name in preset_names()}
    return {name: tree.get("description", "") for name, tree in trees.items()}


def preset_names() -> list[str]:
    """The presets there are."""
    names = [file.name for file in _preset_folder().iterdir()]
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def _preset(name: str) -> str:
    text: str = (_preset_folder() / f"{name}.toml").read_text(encoding="utf-8")
    return text


def _preset_folder() -> Any:
    return resources.files("feddiv") / "presets"


def read_toml(source: str | Path) -> dict[str, Any]:
    """The tree of a preset or of a file."""
    path, known = Path(source), preset_names()
    if source in known:
        text = _preset(str(source))
    elif path.suffix == ".toml" or path.exists():
        try:
            text = read_given(path).decode()
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            hint = did_you_mean(path.stem, known) if missing else ""
            if isinstance(error, IsADirectoryError) and (path / RUN_CONFIG).is_file():
                hint = f", of a run: name {path / RUN_CONFIG}"
            raise UserError(f"config file {path}: {error.strerror or error}{hint}") from None
        except UnicodeDecodeError as error:
            raise UserError(f"config file {path} is not TOML: {error}") from None
    else:
        files = [file.name for file in Path().glob("*.toml")]
        raise UserError(
            f"{str(source)!r} is no file and no preset{did_you_mean(source, [*known, *files])}; "
            f"there are {', '.join(known)}"
        )
    return toml_tree(text, f"config file {source}")


def toml_tree(text: str, where: str) -> dict[str, Any]:
    """The tree of a text."""
    try:
        return parse_toml(text)
    except NotToml as error:
        raise UserError(f"{where} is not TOML: {error}") from None
