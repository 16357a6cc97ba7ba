"""Runs that start from weights in a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import feddiv
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.core.files import load_tensors
from feddiv.core.randomness import Streams
from feddiv.nets import ModelOptions
from feddiv.nets.build import build_net
from feddiv.runs.prepare import prepare
from feddiv.runs.start_and_resume import Watcher

pytestmark = pytest.mark.slow

TINY = {"rounds": 3, "warmup.iterations": 1, "data.images": 200, "train.epochs": 1, "against": []}


def mlp(path: Path, classes: int = 7, seed: int = 1) -> dict[str, Tensor]:
    """Weights of an mlp for digits, written to a file."""
    torch.manual_seed(seed)
    state = build_net(ModelOptions(name="mlp"), (1, 8, 8), classes).state_dict()
    save_file(state, path)
    return state


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "published.safetensors"
    mlp(path)
    return path


def settings(file: Path, **more: Any) -> dict[str, Any]:
    return {**TINY, "model.name": "mlp", "model.weights": str(file), **more}


def begun(experiment: dict[str, Any], *names: str) -> dict[str, dict[str, Tensor]]:
    workspace = prepare(load_experiment("quickstart", experiment)).workspace
    return {name: workspace.make_model(name, Streams(0)) for name in names}


class Impatient(Watcher):
    """Stops a run after its first round."""

    def round(self, line: dict[str, Any]) -> None:
        raise KeyboardInterrupt


def test_a_model_starts_from_the_file_and_two_models_differ_in_their_heads(file: Path) -> None:
    state = load_tensors(file)[0]
    models = begun(settings(file, **{"method.name": "dividemix"}), "a", "b")
    for model in models.values():
        assert torch.equal(model["hidden.1.weight"], state["hidden.1.weight"])
    assert not torch.equal(models["a"]["fc.weight"], models["b"]["fc.weight"])


def test_two_models_differ_even_where_the_head_of_the_file_fits(file: Path) -> None:
    state = mlp(file, classes=10)
    models = begun(settings(file), "net", "a", "b")
    assert torch.equal(models["net"]["fc.weight"], state["fc.weight"])
    heads = [models[name]["fc.weight"] for name in ("net", "a", "b")]
    assert not any(torch.equal(heads[i], heads[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


def test_a_finished_model_needs_no_file_and_the_config_says_which_it_was(
    file: Path, tmp_path: Path
) -> None:
    run = feddiv.run("quickstart", settings(file), out=tmp_path / "run", workers=0)
    again = load_experiment(run.folder / "config.toml")
    assert again.model.weights == file
    assert again.model.sha256 == ModelOptions(name="mlp", weights=file).pinned().sha256
    file.unlink()
    images = np.zeros((2, 8, 8), np.uint8)
    assert feddiv.load(run.folder).predict_proba(images).shape == (2, 10)
    assert feddiv.resume(run.folder).summary == run.summary


def test_a_resumed_run_asks_for_the_file_only_where_it_is_read(file: Path, tmp_path: Path) -> None:
    straight = feddiv.run("quickstart", settings(file), out=tmp_path / "straight", workers=0)
    plain = feddiv.run(
        "quickstart", {**TINY, "model.name": "mlp"}, out=tmp_path / "plain", workers=0
    )
    assert plain.summary["model_hash"] != straight.summary["model_hash"]

    stopped = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        feddiv.run("quickstart", settings(file), out=stopped, workers=0, watcher=Impatient())
    file.rename(tmp_path / "elsewhere")
    resumed = feddiv.resume(stopped, workers=0)
    assert resumed.summary["model_hash"] == straight.summary["model_hash"]


def test_a_run_without_a_checkpoint_needs_the_same_file(file: Path, tmp_path: Path) -> None:
    stopped = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        feddiv.run("quickstart", settings(file), out=stopped, workers=0, watcher=Impatient())
    for checkpoint in (stopped / "checkpoint").iterdir():
        checkpoint.unlink()
    content = file.read_bytes()
    mlp(file, seed=2)
    with pytest.raises(UserError, match="is not the file of this run"):
        feddiv.resume(stopped, workers=0)
    file.unlink()
    with pytest.raises(UserError, match="there is no such file"):
        feddiv.resume(stopped, workers=0)
    file.write_bytes(content)
    straight = feddiv.run("quickstart", settings(file), out=tmp_path / "straight", workers=0)
    assert (
        feddiv.resume(stopped, workers=0).summary["model_hash"] == (straight.summary["model_hash"])
    )


def test_the_stem_is_in_the_header_of_the_model(tmp_path: Path) -> None:
    changes = {**TINY, "rounds": 1, "warmup.iterations": 0, "clients.fraction": 0.1}
    changes |= {"model.name": "resnet18", "model.stem": "imagenet", "data.images": 50}
    changes |= {"data.test_images": 20, "method.name": "fedavg"}
    run = feddiv.run("quickstart", changes, out=tmp_path / "run", workers=0)
    net = feddiv.load(run.folder).nets["net"]
    assert net.state_dict()["conv1.weight"].shape == (64, 1, 7, 7)


def test_an_impossible_file_leaves_nothing_behind(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"missing: blocks\.0\.0\.weight"):
        feddiv.run("quickstart", {**settings(file), "model.name": "cnn"}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_another_net_drops_the_weights_of_the_old_one(file: Path) -> None:
    chosen = load_experiment({"model": {"name": "mlp", "weights": str(file)}}, ["model.name=cnn"])
    assert chosen.model == ModelOptions(name="cnn")
