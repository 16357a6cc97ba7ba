import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
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


@pytest.mark.parametrize("weight", [np.nan, 3e38])
def test_a_model_that_says_nothing_is_no_answer(file: Path, weight: float) -> None:
    net = saved(file)
    spoilt = {key: torch.full_like(value, weight) for key, value in net.state_dict().items()}
    save_weights(file, {"net": spoilt}, CARDS["mlp"])
    with pytest.raises(UserError, match="the model's outputs are not finite"):
        load_model(file).predict(VECTORS)


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


@pytest.mark.parametrize("shape", [None, [8, 8, 3]], ids=["texts", "images"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"pooling": {}},
        {"pooling": "median"},
        {"mean": [{}]},
        {"mean": "none"},
        {"std": [0.0]},
        {"size": "large"},
        {"size": 10**9},
        {"views": []},
        {"sha256": 3},
        {"sha256": None},
        {"name": None},
        {"name": ["wordllama"]},
        {"colour": 1},
    ],
    ids=str,
)
def test_a_header_whose_encoder_is_none(
    file: Path, shape: object, wrong: dict[str, object]
) -> None:
    images = {"size": 8, "mean": [0.5] * 3, "std": [0.5] * 3} if shape else {}
    encoder = {"name": "wordllama", "sha256": "0" * 64, **images, **wrong}
    rewritten(file, feddiv=fields(encoder=encoder, image_shape=shape))
    assert "header and weights make no net: encoder" in refused(file)


def test_an_encoder_of_texts_has_no_size_of_images(file: Path) -> None:
    encoder = {"name": "wordllama", "sha256": "0" * 64, "size": 8}
    rewritten(file, feddiv=fields(encoder=encoder))
    assert "encoder is of texts" in refused(file)


def test_a_well_formed_header_written_by_hand_works(file: Path) -> None:
    rewritten(file, feddiv=fields())
    assert load_model(file).predict(VECTORS).shape == (5,)


def test_missing_entries(file: Path) -> None:
    state = build_net(ModelOptions(name="mlp"), (4,), 3).state_dict()
    state.pop(next(iter(state)))
    save_weights(file, {"net": state}, CARDS["mlp"])
    refused(file)


PHOTO = Image.fromarray(IMAGES[0, ..., 0])


def test_images_and_paths_give_what_their_pixels_give(file: Path, tmp_path: Path) -> None:
    saved(file, "cnn")
    model = load_model(file)
    expected = model.predict_proba(IMAGES)
    photos = [Image.fromarray(image[..., 0]) for image in IMAGES]
    paths = [tmp_path / f"{number}.png" for number in range(len(photos))]
    for photo, path in zip(photos, paths, strict=True):
        photo.save(path)
    assert np.array_equal(model.predict_proba(photos), expected)
    assert np.array_equal(model.predict_proba(paths), expected)
    assert np.array_equal(model.predict_proba(tuple(map(str, paths))), expected)
    mixed = model.predict_proba([photos[0], paths[1]])
    np.testing.assert_allclose(mixed, expected[:2], atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(photos[0]), expected[:1], atol=1e-6)
    assert model.predict(photos[3]).tolist() == expected[3:4].argmax(axis=1).tolist()
    assert np.array_equal(model.predict_proba(torch.from_numpy(IMAGES)), expected)
    assert np.array_equal(model.predict_proba(list(IMAGES)), expected)
    assert model.predict([]).shape == (0,)
    large = photos[0].resize((80, 40)).convert("RGB")
    large.save(tmp_path / "large.png")
    both = model.predict_proba([large, tmp_path / "large.png"])
    assert np.array_equal(both[0], both[1])


def test_names_of_classes(file: Path) -> None:
    saved(file, "cnn")
    model = load_model(file)
    names = ("ant", "bee", "cat")
    assert model.predict_labels(IMAGES) == [names[number] for number in model.predict(IMAGES)]
    assert model.predict_labels(PHOTO) == [names[int(model.predict(IMAGES[:1])[0])]]
    assert model.predict_labels([]) == []


def test_frames_by_the_columns_of_the_training_table(file: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    net = build_net(ModelOptions(name="mlp"), (4,), 3)
    known = replace(CARDS["mlp"], columns=("d", "a", "b", "c"))
    save_weights(file, {"net": net.state_dict()}, known)
    frame = pandas.DataFrame(VECTORS, columns=["d", "a", "b", "c"])
    shuffled = frame[["c", "b", "a", "d"]].assign(label="ant", other=3.0)
    model = load_model(file)
    assert model.card.columns == known.columns
    assert np.array_equal(model.predict_proba(shuffled), model.predict_proba(VECTORS))
    with pytest.raises(UserError, match="no column 'b', which the model was trained on"):
        model.predict(frame.drop(columns="b"))
    PHOTO.save(tmp_path / "photo.png")
    paths = pandas.DataFrame({"image": [str(tmp_path / "photo.png")]})
    saved(file, "cnn")
    assert load_model(file).predict_labels(paths) == load_model(file).predict_labels(PHOTO)


def test_what_is_no_sample_is_named(file: Path, tmp_path: Path) -> None:
    def said(inputs: object) -> str:
        with pytest.raises(UserError) as caught:
            load_model(file).predict(inputs)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    saved(file, "cnn")
    (tmp_path / "text.png").write_text("no image")
    assert "sample 1, " in said([PHOTO, tmp_path / "text.png"])
    assert "cannot be read as an image" in said(tmp_path / "gone.png")
    assert said([PHOTO, 3]).startswith("sample 1 is a int; give an array, a PIL image")
    assert said({"image": PHOTO}).startswith("samples are a dict; give an array, PIL images")
    saved(file)
    assert said(PHOTO) == "sample 0 is an image; this model takes (4,)"
