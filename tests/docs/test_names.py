"""What pages name exists: config keys, presets, variants, files; and their examples hold."""

import re
import tomllib

import pytest
from docs.generate.config_keys import all_keys
from tests.docs.pages import ROOT, Code, code

from feddiv.config.experiment import Experiment
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.methods.registry import METHODS, names_of
from feddiv.presets import presets
from feddiv.tables.sweep_file import sweep_of

INLINE = [piece for piece in code() if piece.inline]
EXPERIMENTS = [piece for piece in code() if piece.language == "toml"]
PYTHON = [piece for piece in code() if piece.language == "python"]
KEY = re.compile(r"([a-z_]+(?:\.[a-z_]+)+)(=.*)?")
SUFFIXES = ("csv", "jsonl", "md", "npy", "npz", "parquet", "py", "safetensors", "sh", "toml", "txt")
PRESET = re.compile(r"(cifar10|cifar100|cifar100n|clothing1m|digits)-[a-z0-9.-]+", re.ASCII)
VARIANT = re.compile(rf"({'|'.join(METHODS)})-[a-z-]+", re.ASCII)
FILE = re.compile(r"[a-z_./]+/[\w.-]+\.py|benchmarks/[\w./-]+\.\w+")


def missing(pattern: re.Pattern[str], known: set[str]) -> list[str]:
    """Code that looks like a name of this kind and is none."""
    named = [piece for piece in INLINE if pattern.fullmatch(piece.text)]
    return [f"{piece.where} {piece.text}" for piece in named if piece.text not in known]


def unknown_keys(pieces: list[Code]) -> list[str]:
    keys = all_keys()
    sections = {".".join(key.split(".")[:depth]) for key in keys for depth in (1, 2, 3)}
    found = []
    for piece in pieces:
        match = KEY.fullmatch(piece.text)
        if match is None or match[1].split(".")[0] not in Experiment.model_fields:
            continue
        key = match[1]
        if key.endswith(SUFFIXES) or key in keys | sections or key.startswith("noise.map."):
            continue
        found.append(f"{piece.where} {piece.text}")
    return found


def test_every_config_key_that_a_page_names_exists() -> None:
    assert unknown_keys(INLINE) == []


def test_a_key_that_does_not_exist_is_found() -> None:
    pieces = [Code("a.md", 3, text, inline=True) for text in ("noise.roh=1", "model.safetensors")]
    assert unknown_keys(pieces) == ["a.md:3 noise.roh=1"]


def test_every_preset_that_a_page_names_exists() -> None:
    assert missing(PRESET, set(presets())) == []


def test_every_variant_that_a_page_names_exists() -> None:
    assert missing(VARIANT, {name for method in METHODS for name in names_of(method)}) == []


def test_every_source_file_that_a_page_names_exists() -> None:
    files = [piece for piece in INLINE if FILE.fullmatch(piece.text)]
    assert len(files) > 30
    homes = (ROOT, ROOT / "src" / "feddiv")
    gone = [c for c in files if not any((home / c.text).exists() for home in homes)]
    assert [f"{piece.where} {piece.text}" for piece in gone] == []


@pytest.mark.parametrize("block", EXPERIMENTS, ids=lambda block: block.where)
def test_an_experiment_on_a_page_is_valid(block: Code) -> None:
    try:
        tree = tomllib.loads(block.text)
        if "seeds" in tree:
            sweep_of(tree, "mine", ROOT, "sweep")
        else:
            load_experiment(tree)
    except (UserError, tomllib.TOMLDecodeError) as error:
        pytest.fail(f"{block.where}\n  {error}", pytrace=False)


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.where)
def test_python_on_a_page_compiles(block: Code) -> None:
    compile("\n" * (block.line - 1) + block.text, block.file, "exec")
