"""The options of `mlp`, from the net to the file of a trained model."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import feddiv
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.nets import ModelOptions
from feddiv.nets.build import build_net

SMALL: dict[str, Any] = {
    "rounds": 2,
    "warmup.iterations": 0,
    "data.images": 60,
    "data.test_images": 20,
    "clients.count": 3,
    "clients.fraction": 1.0,
    "train.epochs": 1,
    "method.name": "fedavg",
    "model.name": "mlp",
    "against": [],
}


def mlp(**options: Any) -> nn.Module:
    with Streams(0).seeded("net"):
        return build_net(ModelOptions(name="mlp", **options), (6,), 3)


def kinds(net: nn.Module) -> list[str]:
    return [type(part).__name__ for part in net.get_submodule("hidden")]


def test_by_default_it_is_what_it_was() -> None:
    with Streams(0).seeded("net"):
        plain = nn.Sequential(nn.Linear(6, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())
        head = nn.Linear(128, 3)
    state = mlp().state_dict()
    expected = {"hidden.1": plain[0], "hidden.3": plain[2], "fc": head}
    assert list(state) == [f"{name}.{key}" for name in expected for key in ("weight", "bias")]
    for name, layer in expected.items():
        assert torch.equal(state[f"{name}.weight"], layer.weight)
        assert torch.equal(state[f"{name}.bias"], layer.bias)
    said = mlp(hidden=128, layers=2, dropout=0.0, norm="none").state_dict()
    assert all(torch.equal(state[key], said[key]) for key in state)


def test_width_and_depth() -> None:
    net = mlp(hidden=5, layers=3)
    shapes = [tuple(each.shape) for each in net.parameters() if each.dim() == 2]
    assert shapes == [(5, 6), (5, 5), (5, 5), (3, 5)]
    assert mlp(hidden=4, layers=1)(torch.zeros(2, 6)).shape == (2, 3)


def test_norm_comes_before_and_dropout_after_each_relu() -> None:
    layer = ["Linear", "LayerNorm", "ReLU", "Dropout"]
    assert kinds(mlp(norm="layer", dropout=0.5)) == ["Flatten", *layer, *layer]
    assert kinds(mlp(norm="batch", layers=1)) == ["Flatten", "Linear", "BatchNorm1d", "ReLU"]


def test_dropout_is_for_training_only() -> None:
    net, inputs = mlp(dropout=0.5), torch.ones(4, 6)
    assert not torch.equal(net(inputs), net(inputs))
    net.eval()
    assert torch.equal(net(inputs), net(inputs))


@pytest.mark.parametrize("name", ["linear", "cnn", "resnet18"])
@pytest.mark.parametrize(
    "option", [{"hidden": 4}, {"layers": 1}, {"dropout": 0.0}, {"norm": "none"}]
)
def test_other_nets_refuse_them(name: str, option: dict[str, Any]) -> None:
    ((key, value),) = option.items()
    with pytest.raises(UserError) as error:
        build_net(ModelOptions(name=name, **option), (1, 8, 8), 3)
    assert str(error.value) == (
        f"model.{key}={value}: model.name='{name}' has no use for it; it is for mlp"
    )


def test_refused_before_anything_is_written(tmp_path: Path) -> None:
    changes = {**SMALL, "model.name": "linear", "model.hidden": 5}
    with pytest.raises(UserError, match=r"^model\.hidden=5: .* it is for mlp$"):
        feddiv.run("quickstart", changes, out=tmp_path / "run", workers=0)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "option", ["hidden=0", "layers=0", "dropout=1", "dropout=-0.1", "norm=group", "hidden=2.5"]
)
def test_impossible_values(option: str) -> None:
    with pytest.raises(UserError, match=rf"^model\.{option.partition('=')[0]}"):
        feddiv.load_experiment("quickstart", ["model.name=mlp", f"model.{option}"])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedavg", "feddiv"])
def test_the_same_bits_with_dropout_for_any_number_of_workers(tmp_path: Path, method: str) -> None:
    changes = {**SMALL, "model.dropout": 0.3, "model.norm": "batch", "method.name": method}
    found = {
        feddiv.run("quickstart", changes, out=tmp_path / f"{count}", workers=count).summary[
            "model_hash"
        ]
        for count in (0, 1, 3)
    }
    assert len(found) == 1
    without = {**changes, "model.dropout": 0.0}
    other = feddiv.run("quickstart", without, out=tmp_path / "other", workers=0)
    assert other.summary["model_hash"] not in found


@pytest.mark.slow
def test_a_model_file_says_how_its_net_is_built(tmp_path: Path) -> None:
    options = {"hidden": 7, "layers": 3, "dropout": 0.2, "norm": "layer"}
    changes = SMALL | {f"model.{key}": value for key, value in options.items()}
    run = feddiv.run("quickstart", changes, out=tmp_path / "run", workers=0)
    net = feddiv.load(run.folder).nets["net"]
    assert kinds(net).count("LayerNorm") == kinds(net).count("Dropout") == 3
    assert net.state_dict()["fc.weight"].shape == (10, 7)


@pytest.mark.slow
def test_linear_learns(tmp_path: Path) -> None:
    changes = {**SMALL, "model.name": "linear", "data.images": 600, "rounds": 5}
    run = feddiv.run("quickstart", {**changes, "noise.name": "none"}, out=tmp_path / "run")
    assert run.summary["last_test_accuracy"] >= 0.7
    assert feddiv.load(run.folder).nets["net"].state_dict().keys() == {"fc.weight", "fc.bias"}
