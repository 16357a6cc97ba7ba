import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from feddiv.core.errors import UserError
from feddiv.nets import ModelOptions
from feddiv.nets.build import build_net
from feddiv.runs.model import ModelCard, TrainedModel, load_model, save_weights

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1), dtype=np.uint8)
VECTORS = np.random.default_rng(0).normal(2, 3, (5, 4)).astype(np.float32)


def card(net: str, input_shape: tuple[int, ...]) -> ModelCard:
    return ModelCard(
        net=net,
        input_shape=input_shape,
        classes=("ant", "bee", "cat"),
        mean=(0.5,),
        std=(0.25,),
        method={"name": "fedavg", "variant": "default"},
    )


CARDS = {"cnn": card("cnn", (1, 8, 8)), "mlp": card("mlp", (4,))}


def saved(path: Path, name: str = "mlp") -> torch.nn.Module:
    """A file with fresh weights, and the net that has them."""
    torch.manual_seed(0)
    net = build_net(ModelOptions(name=name), CARDS[name].input_shape, 3)
    save_weights(path, {"net": net.state_dict()}, CARDS[name])
    return net.eval()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def test_images_give_the_same_probabilities_after_a_round_trip(file: Path) -> None:
    net = saved(file, "cnn")
    plain = (torch.from_numpy(IMAGES).permute(0, 3, 1, 2) / 255 - 0.5) / 0.25
    expected = net(plain).softmax(dim=1).detach().numpy()
    model = load_model(file)
    np.testing.assert_allclose(model.predict_proba(IMAGES), expected, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(IMAGES[..., 0]), expected, atol=1e-5)
    assert model.predict(IMAGES).tolist() == expected.argmax(axis=1).tolist()
    assert model.classes == ("ant", "bee", "cat")


def test_vectors_give_the_same_probabilities_after_a_round_trip(file: Path) -> None:
    net = saved(file)
    expected = net((torch.from_numpy(VECTORS) - 0.5) / 0.25).softmax(dim=1).detach().numpy()
    model = load_model(file)
    np.testing.assert_allclose(model.predict_proba(VECTORS), expected, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(VECTORS.astype(np.float64)), expected, atol=1e-5)


def test_saving_what_was_loaded_gives_the_same_bits(file: Path) -> None:
    saved(file)
    first = load_model(file)
    states = {name: net.state_dict() for name, net in first.nets.items()}
    save_weights(file, states, first.card)
    again = load_model(file)
    assert again.card == first.card == CARDS["mlp"]
    assert np.array_equal(again.predict_proba(VECTORS), first.predict_proba(VECTORS))


def test_a_folder_means_its_last_model(file: Path) -> None:
    saved(file)
    assert isinstance(load_model(file.parent), TrainedModel)
    assert isinstance(load_model(str(file.parent)), TrainedModel)


def test_nothing_is_left_beside_the_file(file: Path) -> None:
    saved(file)
    saved(file)
    assert [path.name for path in file.parent.iterdir()] == ["model.safetensors"]
    with safe_open(file, framework="pt") as opened:
        assert {key.partition("/")[0] for key in opened.keys()} == {"net"}  # noqa: SIM118


def test_rows_are_independent_and_sum_to_one(file: Path) -> None:
    saved(file)
    model = load_model(file)
    many = model.predict_proba(np.tile(VECTORS, (101, 1)))  # more than one chunk
    assert many.sum(axis=1) == pytest.approx(np.ones(505))
    np.testing.assert_allclose(many[-5:], model.predict_proba(VECTORS), atol=1e-6)
    assert model.predict_proba(VECTORS[:0]).shape == (0, 3)


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("mlp", VECTORS[:, :3]),
        ("mlp", VECTORS[0]),
        ("mlp", np.zeros((5, 4), np.int64)),
        ("mlp", IMAGES),
        ("cnn", IMAGES.astype(np.float32)),
        ("cnn", IMAGES[:, :, :5]),
        ("cnn", np.repeat(IMAGES, 3, axis=3)),
        ("cnn", VECTORS),
    ],
)
def test_samples_that_do_not_fit_are_refused(file: Path, name: str, inputs: np.ndarray) -> None:
    saved(file, name)
    with pytest.raises(UserError, match="this model takes") as caught:
        load_model(file).predict(inputs)
    assert "\n" not in str(caught.value)


def rewritten(file: Path, **header: str) -> None:
    saved(file)
    with safe_open(file, framework="pt") as opened:
        tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    save_file(tensors, file, metadata=header or None)


def fields(**changed: object) -> str:
    known = {
        "net": "mlp",
        "input_shape": [4],
        "classes": ["ant", "bee", "cat"],
        "mean": [0.5],
        "std": [0.25],
        "method": {"name": "fedavg"},
    }
    return json.dumps({**known, **changed})


def refused(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        load_model(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_no_model_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no model"):
        load_model(tmp_path)
    assert "there is no model" in refused(tmp_path / "gone.safetensors")


@pytest.mark.parametrize("keep", [0, 4, 100, 5000])
def test_a_file_cut_short(file: Path, keep: int) -> None:
    saved(file)
    file.write_bytes(file.read_bytes()[:keep])
    assert "cannot be read as safetensors" in refused(file)


def test_a_file_of_something_else(file: Path) -> None:
    file.write_text("not a model at all, but long enough to have a header length\n" * 10)
    assert "cannot be read as safetensors" in refused(file)


def test_a_model_of_another_program(file: Path) -> None:
    rewritten(file)
    assert "was not written by feddiv" in refused(file)
    rewritten(file, format="pt")
    assert "was not written by feddiv" in refused(file)


@pytest.mark.parametrize(
    "header",
    [
        "not json",
        "[]",
        json.dumps({"net": "mlp"}),
        fields(colour="blue"),
        fields(net="lenet"),
        fields(method={"name": "unknown"}),
        fields(method={}),
        fields(input_shape=[5]),
        fields(classes=["ant"]),
    ],
    ids=["text", "list", "few", "more", "net", "method", "no-method", "shape", "classes"],
)
def test_a_header_that_does_not_describe_the_weights(file: Path, header: str) -> None:
    rewritten(file, feddiv=header)
    refused(file)


def test_a_well_formed_header_written_by_hand_works(file: Path) -> None:
    rewritten(file, feddiv=fields())
    assert load_model(file).predict(VECTORS).shape == (5,)


def test_missing_entries(file: Path) -> None:
    state = build_net(ModelOptions(name="mlp"), (4,), 3).state_dict()
    state.pop(next(iter(state)))
    save_weights(file, {"net": state}, CARDS["mlp"])
    refused(file)
