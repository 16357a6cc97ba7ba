"""Published weights, in torchvision's naming, as files that other programs write."""

import hashlib
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from feddiv.core.errors import UserError
from feddiv.core.weights import read_weights, weights_sha256
from feddiv.nets import ModelOptions
from feddiv.nets.build import build_net

COLOUR = (3, 40, 40)


def published(depths: tuple[int, ...] = (2, 2, 2, 2), classes: int = 1000) -> dict[str, Tensor]:
    """A state dict with the names and shapes of torchvision's ResNet-18, every value its own."""
    shapes: dict[str, tuple[int, ...]] = {"conv1.weight": (64, 3, 7, 7)} | norm("bn1", 64)
    before = 64
    for stage, depth in enumerate(depths, 1):
        width = 64 * 2 ** (stage - 1)
        for block in range(depth):
            place = f"layer{stage}.{block}"
            shapes[f"{place}.conv1.weight"] = (width, before, 3, 3)
            shapes |= norm(f"{place}.bn1", width)
            shapes[f"{place}.conv2.weight"] = (width, width, 3, 3)
            shapes |= norm(f"{place}.bn2", width)
            if before != width:
                shapes[f"{place}.downsample.0.weight"] = (width, before, 1, 1)
                shapes |= norm(f"{place}.downsample.1", width)
            before = width
    shapes |= {"fc.weight": (classes, 512), "fc.bias": (classes,)}
    generator = torch.Generator().manual_seed(7)
    return {
        key: torch.rand(shape, generator=generator) if shape else torch.tensor(9)
        for key, shape in shapes.items()
    }


def norm(place: str, width: int) -> dict[str, tuple[int, ...]]:
    entries = ("weight", "bias", "running_mean", "running_var")
    return {f"{place}.{entry}": (width,) for entry in entries} | {
        f"{place}.num_batches_tracked": ()
    }


@pytest.fixture(scope="module")
def state() -> dict[str, Tensor]:
    return published()


def written(folder: Path, state: dict[str, Any], name: str = "net.safetensors") -> Path:
    path = folder / name
    if path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save(state, path)
    return path


def resnet18(path: Path, classes: int = 10, **options: Any) -> nn.Module:
    model = ModelOptions(name="resnet18", stem="imagenet", weights=path, **options)
    torch.manual_seed(0)
    return build_net(model, COLOUR, classes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["net.safetensors", "net.pth"])
def test_a_net_starts_from_the_file_with_a_head_of_its_own(
    tmp_path: Path, state: dict[str, Tensor], name: str
) -> None:
    loaded = resnet18(written(tmp_path, state, name)).state_dict()
    assert loaded.keys() == state.keys()
    body = [key for key in state if not key.startswith("fc.")]
    assert all(torch.equal(loaded[key], state[key]) for key in body)
    torch.manual_seed(0)
    drawn = build_net(ModelOptions(name="resnet18", stem="imagenet"), COLOUR, 10).state_dict()
    assert torch.equal(loaded["fc.weight"], drawn["fc.weight"])
    assert loaded["fc.weight"].shape == (10, 512)


@pytest.mark.slow
def test_where_the_classes_agree_the_head_is_taken_over_unless_a_fresh_one_is_asked_for(
    tmp_path: Path, state: dict[str, Tensor]
) -> None:
    path = written(tmp_path, published(classes=10))
    assert torch.equal(resnet18(path).state_dict()["fc.bias"], published(classes=10)["fc.bias"])
    options = ModelOptions(name="resnet18", stem="imagenet", weights=path)
    fresh = build_net(options, COLOUR, 10, fresh_head=True).state_dict()
    assert not torch.equal(fresh["fc.bias"], published(classes=10)["fc.bias"])
    assert torch.equal(fresh["conv1.weight"], published(classes=10)["conv1.weight"])


def test_a_checkpoint_with_more_than_weights_an_absent_head_and_absent_counters_are_fine(
    tmp_path: Path, state: dict[str, Tensor]
) -> None:
    lean = {
        key: value
        for key, value in state.items()
        if not key.startswith("fc.") and not key.endswith("num_batches_tracked")
    }
    path = written(tmp_path, {"epoch": 3, "state_dict": lean}, "checkpoint.pth")
    loaded = resnet18(path).state_dict()
    assert torch.equal(loaded["layer4.1.conv2.weight"], lean["layer4.1.conv2.weight"])
    assert int(loaded["bn1.num_batches_tracked"]) == 0


def test_every_mismatch_is_named_by_its_key(tmp_path: Path, state: dict[str, Tensor]) -> None:
    odd = dict(state)
    del odd["layer2.0.downsample.0.weight"]
    odd["conv1.weight"] = torch.zeros(64, 1, 7, 7)
    odd["aux.weight"] = torch.zeros(2)
    path = written(tmp_path, odd)
    with pytest.raises(UserError) as error:
        resnet18(path)
    assert str(error.value) == (
        f"model.weights={path} does not fit model.name='resnet18': "
        "missing: layer2.0.downsample.0.weight; unexpected: aux.weight; "
        "shape: conv1.weight is (64, 1, 7, 7), not (64, 3, 7, 7)"
    )


def test_weights_with_another_stem_say_which(tmp_path: Path, state: dict[str, Tensor]) -> None:
    path = written(tmp_path, state)
    shapes = r"conv1\.weight is \(64, 3, 7, 7\), not \(64, 3, 3, 3\)"
    with pytest.raises(
        UserError, match=shapes + "; model.stem=imagenet begins as these weights do$"
    ):
        build_net(ModelOptions(name="resnet18", weights=path), COLOUR, 10)
    grey = written(tmp_path, {**state, "conv1.weight": torch.zeros(64, 3, 3, 3)}, "small.pth")
    with pytest.raises(UserError, match=r"; model\.stem=cifar begins as these weights do$"):
        resnet18(grey)


def test_weights_of_a_net_on_several_devices(tmp_path: Path, state: dict[str, Tensor]) -> None:
    wrapped = {f"module.{key}": value for key, value in state.items()}
    loaded = resnet18(written(tmp_path, {"state_dict": wrapped}, "parallel.pth")).state_dict()
    assert torch.equal(loaded["layer4.1.conv2.weight"], state["layer4.1.conv2.weight"])
    mixed = wrapped | {"aux.weight": torch.zeros(2)}
    with pytest.raises(UserError, match=r"unexpected: (aux|module)\."):
        resnet18(written(tmp_path, mixed))


def test_a_head_over_other_features_is_a_mismatch_not_a_head_to_replace(
    tmp_path: Path, state: dict[str, Tensor]
) -> None:
    path = written(tmp_path, {**state, "fc.weight": torch.zeros(1000, 2048)})
    with pytest.raises(UserError, match=r"fc.weight is \(1000, 2048\), not \(10, 512\)"):
        resnet18(path)


def test_weights_of_another_net_give_a_line_that_ends(
    tmp_path: Path, state: dict[str, Tensor]
) -> None:
    path = written(tmp_path, state)
    with pytest.raises(UserError, match=r"missing: layer1.0.conv3.weight, .* and \d+ more") as e:
        build_net(ModelOptions(name="resnet50", weights=path), COLOUR, 10)
    assert "layer1.0.conv1.weight is (64, 64, 3, 3), not (64, 64, 1, 1)" in str(e.value)
    assert len(str(e.value)) < 5000


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("executed",))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not readable as weights"),
        (b"no weights at all", "no pickle of tensors"),
        (pickle.dumps({"conv1.weight": Evil()}), "only tensors are read"),
        (b"\x40" + bytes(7) + b"{" + bytes(90), "damaged safetensors"),
    ],
)
def test_a_foreign_file_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, reason: str
) -> None:
    path = tmp_path / "weights.pth"
    path.write_bytes(content)
    with pytest.raises(UserError, match=reason) as error:
        read_weights(path)
    assert str(error.value).startswith(f"model.weights={path}: ")
    assert "\n" not in str(error.value)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["net.safetensors", "net.pth"])
def test_a_truncated_file_is_one_line(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, {"weight": torch.zeros(1000)}, name)
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(UserError, match=r"not readable as weights|damaged safetensors") as error:
        read_weights(path)
    assert "\n" not in str(error.value)


def test_what_is_no_state_dict_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds a list, not a state dict"):
        read_weights(written(tmp_path, [torch.zeros(2)], "list.pth"))  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no state dict: 'lr' is a float, not a tensor"):
        read_weights(written(tmp_path, {"lr": 0.1}, "number.pth"))


def test_values_that_are_not_finite_are_refused(tmp_path: Path, state: dict[str, Tensor]) -> None:
    path = written(tmp_path, {**state, "bn1.bias": torch.full((64,), torch.nan)})
    with pytest.raises(UserError, match=r"bn1\.bias holds a value that is not finite"):
        resnet18(path)


def test_the_checksum_says_which_file_it_is(tmp_path: Path, state: dict[str, Tensor]) -> None:
    path = written(tmp_path, state)
    pinned = ModelOptions(name="resnet18", weights=path).pinned()
    assert pinned.sha256 == hashlib.sha256(path.read_bytes()).hexdigest() == weights_sha256(path)
    written(tmp_path, {**state, "bn1.bias": torch.ones(64)})
    with pytest.raises(UserError, match="is not the file of this run"):
        resnet18(path, sha256=pinned.sha256)


def test_a_stem_is_for_nets_that_have_several() -> None:
    with pytest.raises(UserError, match=r"model.stem=cifar: model.name='cnn' .* resnet50"):
        build_net(ModelOptions(name="cnn", stem="cifar"), COLOUR, 10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "resnet34", "resnet50"])
def test_stems(name: str) -> None:
    shapes = {
        stem: build_net(ModelOptions(name=name, stem=stem), COLOUR, 4).state_dict()["conv1.weight"]
        for stem in ("cifar", "imagenet")
    }
    assert shapes["cifar"].shape == (64, 3, 3, 3)
    assert shapes["imagenet"].shape == (64, 3, 7, 7)


def test_own_nets_take_weights_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_weights_net.py").write_text(
        "from torch import nn\n"
        "def make(input_shape, classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(),\n"
        "                         nn.Linear(5, classes))\n"
        "def bare(input_shape, classes):\n"
        "    return nn.Linear(12, classes)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    state = {"1.weight": torch.ones(5, 12), "1.bias": torch.ones(5)}
    state |= {"3.weight": torch.ones(7, 5), "3.bias": torch.ones(7)}
    options = ModelOptions(name="my_weights_net:make", weights=written(tmp_path, state))
    loaded = build_net(options, (3, 2, 2), 4).state_dict()
    assert torch.equal(loaded["1.weight"], torch.ones(5, 12))
    assert loaded["3.weight"].shape == (4, 5)
    assert not torch.equal(loaded["3.weight"], torch.ones(4, 5))

    alone = {"weight": torch.ones(7, 12), "bias": torch.ones(7)}
    options = ModelOptions(name="my_weights_net:bare", weights=written(tmp_path, alone))
    assert build_net(options, (12,), 4).state_dict()["weight"].shape == (4, 12)
