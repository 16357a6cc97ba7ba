"""What a run's folder or a model's file names is imported only where the user allows it."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import feddiv
from feddiv.core.errors import UserError
from feddiv.core.files import load_tensors, save_tensors

EVIL = """
from pathlib import Path
Path("ran").write_text("yes")
from examples.own_method.small_loss import SmallLoss
from feddiv.nets import ModelOptions
from feddiv.nets.build import build_net
class Method(SmallLoss):
    pass
def net(input_shape, classes):
    return build_net(ModelOptions(name="mlp"), input_shape, classes)
"""
METHOD, NET = "evil_module:Method", "evil_module:net"


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder somebody sent: a finished run and a stopped one, with our method and net."""
    folder = tmp_path_factory.mktemp("theirs")
    settings = ["rounds=2", "warmup.iterations=0", "data.images=60", "train.epochs=1"]
    settings += ["clients.count=3", "against=[]", "model.name=mlp", "method.name=fedavg"]
    feddiv.run("quickstart", settings, out=folder / "run", workers=0)
    return folder / "run"


@pytest.fixture
def cli(tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command; what it would import can be imported, and leaves a trace."""
    (tmp_path / "evil_module.py").write_text(EVIL)
    monkeypatch.syspath_prepend(tmp_path)
    yield command
    sys.modules.pop("evil_module", None)


def copied(theirs: Path, tmp_path: Path, old: str = "", new: str = "") -> Path:
    folder = Path(shutil.copytree(theirs, tmp_path / "run"))
    config = (folder / "config.toml").read_text()
    assert old in config
    (folder / "config.toml").write_text(config.replace(old, new))
    return folder


def refused(done: Any, tmp_path: Path, *words: str) -> None:
    (line,) = done.err.splitlines()
    for word in words:
        assert word in line
    assert done.code == 2
    assert not (tmp_path / "ran").exists()


PLACES = {
    "method.name": ('[method]\nname = "fedavg"', f'[method]\nname = "{METHOD}"', METHOD),
    "variant": ('[method]\nname = "fedavg"', f'[method]\nname = "{METHOD}-half"', METHOD),
    "model.name": ('name = "mlp"', f'name = "{NET}"', NET),
    "against": ("against = []", f'against = ["{METHOD}"]', METHOD),
    "noise.name": ('[noise]\nname = "symmetric"', f'[noise]\nname = "{METHOD}"', METHOD),
    "noise.kinds": (
        '[noise]\nname = "symmetric"',
        f'[noise]\nname = "mixed"\nkinds = ["none", "{METHOD}"]',
        METHOD,
    ),
}


@pytest.mark.parametrize("key", PLACES)
@pytest.mark.parametrize("more", [(), ("rounds=3",)])
def test_resume_imports_nothing_that_a_folder_names(
    cli: Any, theirs: Path, tmp_path: Path, key: str, more: tuple[str, ...]
) -> None:
    old, new, path = PLACES[key]
    folder = copied(theirs, tmp_path, old, new)
    (folder / "summary.json").unlink()
    done = cli("resume", "run", *more, "--workers", "0")
    refused(done, tmp_path, "config.toml", f"'{path}'", f"--allow {path}")


def test_the_config_of_a_rival_is_no_consent_either(cli: Any, theirs: Path, tmp_path: Path) -> None:
    folder = copied(theirs, tmp_path, "against = []", 'against = ["fedprox"]')
    rival = folder / "against" / "fedprox"
    rival.mkdir(parents=True)
    config = (folder / "config.toml").read_text()
    (rival / "config.toml").write_text(config.replace('"fedavg"', f'"{METHOD}"'))
    done = cli("resume", "run", "--workers", "0")
    refused(done, tmp_path, "against/fedprox/config.toml", f"--allow {METHOD}")


def forged(theirs: Path, tmp_path: Path, **fields: object) -> Path:
    tensors, header = load_tensors(theirs / "model.safetensors")
    card = json.loads(header["feddiv"])
    file = tmp_path / "model.safetensors"
    save_tensors(file, tensors, {"feddiv": json.dumps({**card, **fields})})
    return file


def test_predict_imports_nothing_that_a_model_names(cli: Any, theirs: Path, tmp_path: Path) -> None:
    forged(theirs, tmp_path, net=NET)
    for arguments in (["model.safetensors"], ["model.safetensors", "--allow", METHOD]):
        done = cli("predict", *arguments, "--data", "x.npy")
        refused(done, tmp_path, "model.safetensors: ", f"'{NET}'", f"--allow {NET}")
    forged(theirs, tmp_path, method={"name": METHOD})
    done = cli("predict", "model.safetensors", "--data", "x.npy")
    refused(done, tmp_path, f"'{METHOD}'", f"--allow {METHOD}")


def test_what_is_allowed_by_name_is_used(cli: Any, theirs: Path, tmp_path: Path) -> None:
    old, new, path = PLACES["model.name"]
    folder = copied(theirs, tmp_path, old, new)
    done = cli("resume", folder, "--allow", path, "--allow", "other.module:thing")
    assert (done.code, (tmp_path / "ran").exists()) == (0, True), done.err


def test_only_import_paths_can_be_allowed(theirs: Path, tmp_path: Path) -> None:
    for allow, said in (
        (["fedavg"], "--allow fedavg: is no import path"),
        ("evil_module:net", r"allow='evil_module:net': give a list"),
        ([3], "is no import path"),
    ):
        with pytest.raises(UserError, match=said):
            feddiv.load(theirs, allow=allow)  # type: ignore[arg-type]
        with pytest.raises(UserError, match=said):
            feddiv.resume(theirs, allow=allow)  # type: ignore[arg-type]


def test_in_python_what_was_named_in_this_session_needs_no_second_word(
    theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_module.py").write_text(EVIL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    file = forged(theirs, tmp_path, method={"name": "mine_module:Method"})
    with pytest.raises(UserError, match="--allow mine_module:Method"):
        feddiv.load(file)
    assert not (tmp_path / "ran").exists()
    assert feddiv.load(file, allow=["mine_module:Method"]).classes
    with pytest.raises(UserError, match="--allow mine_module:Method"):
        feddiv.load(file)  # that was for one file
    feddiv.load_experiment("quickstart", ["method.name=mine_module:Method"])
    assert feddiv.load(file).classes


@pytest.mark.parametrize(
    "fields",
    [
        {"input_shape": [1 << 40]},
        {"input_shape": [1 << 20]},
        {"input_shape": [0]},
        {"input_shape": "wide"},
        {"input_shape": []},
        {"classes": [1, 2]},
        {"classes": ["a"] * 100_000},
        {"classes": []},
        {"mean": ["x"]},
        {"method": 3},
        {"method": {}},
        {"net": 5},
        {"stem": "x"},
        {"hidden": 0},
        {"hidden": 12},
        {"layers": 3.5},
        {"norm": "x"},
        {"unknown": 1},
        {"columns": [3]},
    ],
)
def test_a_header_that_no_run_writes(
    theirs: Path, tmp_path: Path, fields: dict[str, object]
) -> None:
    with pytest.raises(UserError, match=r"model\.safetensors: header and weights make no net"):
        feddiv.load(forged(theirs, tmp_path, **fields))


def test_headers_that_are_nested_without_end(theirs: Path, tmp_path: Path) -> None:
    tensors, _ = load_tensors(theirs / "model.safetensors")
    for text in ("[" * 100_000, '{"a":' * 100_000, "3", "null", "{"):
        save_tensors(tmp_path / "model.safetensors", tensors, {"feddiv": text})
        with pytest.raises(UserError, match="header and weights make no net") as caught:
            feddiv.load(tmp_path)
        assert "\n" not in str(caught.value)
