import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

pytest.importorskip("onnxruntime", reason="needs feddiv[encoders]")
pytest.importorskip("onnx", reason="needs the dev extra")

import onnx
from tests.encoders.colours import onnx_file

from feddiv.core.errors import UserError
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.registry import make_encoder

PLAIN = {"mean": (0.0,), "std": (1.0,)}


def image(red: int, green: int, blue: int, side: int = 8) -> torch.Tensor:
    return torch.tensor([red, green, blue], dtype=torch.uint8).expand(1, side, side, 3)


def choice(file: Path, **more: object) -> EncoderChoice:
    return EncoderChoice(str(file), **{**PLAIN, **more})  # type: ignore[arg-type]


def test_features_by_hand(tmp_path: Path) -> None:
    encoder = make_encoder(choice(onnx_file(tmp_path / "c.onnx")), 8)
    assert (encoder.width, encoder.choice.size) == (3, 8)
    assert torch.allclose(encoder.encode(image(255, 51, 0)), torch.tensor([[2.0, 0.4, 0.0]]))


def test_what_its_images_are_like_may_be_in_its_metadata(tmp_path: Path) -> None:
    said = {"mean": "[0.5, 0.2, 0]", "std": "0.5,1,1", "size": "16"}
    file = onnx_file(tmp_path / "c.onnx", size="side", metadata=said)
    encoder = make_encoder(EncoderChoice(str(file)), 32)
    assert encoder.choice.size == 16
    assert encoder.choice.mean == (0.5, 0.2, 0.0)
    found = encoder.encode(image(255, 51, 0, side=32))
    assert torch.allclose(found, torch.tensor([[2.0, 0.0, 0.0]]), atol=1e-6)
    other = make_encoder(EncoderChoice(str(file), size=24, mean=(0.0,)), 32)
    assert (other.choice.size, other.choice.mean) == (24, (0.0, 0.0, 0.0))


def test_without_normalisation_it_is_asked_for(tmp_path: Path) -> None:
    file = onnx_file(tmp_path / "c.onnx")
    with pytest.raises(UserError, match=r"set data\.encoder_mean and data\.encoder_std"):
        make_encoder(EncoderChoice(str(file)), 8)
    bad = onnx_file(tmp_path / "bad.onnx", metadata={"mean": "none", "std": "1"})
    with pytest.raises(UserError, match=r"mean='none', which are no numbers"):
        make_encoder(EncoderChoice(str(bad)), 8)


@pytest.mark.parametrize("said", ["nan", "inf", "1e9", "-8", "0", "0.5"])
def test_a_size_that_no_image_has_is_refused(tmp_path: Path, said: str) -> None:
    file = onnx_file(tmp_path / "c.onnx", size="side", metadata={"size": said})
    with pytest.raises(
        UserError, match=r"a side; possible are 8 to 4,096|are no numbers; set data.encoder_size"
    ):
        make_encoder(choice(file), 8)
    assert make_encoder(choice(file, size=16), 8).width == 3


@pytest.mark.parametrize("said", [{"mean": "nan"}, {"std": "0"}, {"std": "-1"}, {"std": "inf"}])
def test_what_no_image_is_normalised_with_is_refused(tmp_path: Path, said: dict[str, str]) -> None:
    file = onnx_file(tmp_path / "c.onnx", metadata={"mean": "0", "std": "1", **said})
    with pytest.raises(
        UserError, match=r"which cannot be; set data.encoder_mean|are no numbers; set"
    ):
        make_encoder(EncoderChoice(str(file)), 8)


def test_an_output_that_is_no_vector_asks_for_pooling(tmp_path: Path) -> None:
    file = onnx_file(tmp_path / "c.onnx", pooled=False)
    encoder = make_encoder(choice(file), 8)
    with pytest.raises(UserError, match=r"no vector .*\(3, 8, 8\); set data.encoder_pooling to me"):
        encoder.encode(image(1, 2, 3))
    mean = make_encoder(choice(file, pooling="mean"), 8)
    assert torch.allclose(mean.encode(image(255, 51, 0)), torch.tensor([[2.0, 0.4, 0.0]]))
    vectors = make_encoder(choice(onnx_file(tmp_path / "v.onnx"), pooling="mean"), 8)
    with pytest.raises(UserError, match="gives one vector for an image already"):
        vectors.encode(image(1, 2, 3))


def test_one_number_for_all_images_is_no_vector(tmp_path: Path) -> None:
    model = onnx.load(onnx_file(tmp_path / "c.onnx"))
    model.graph.node.append(onnx.helper.make_node("ReduceSum", ["features"], ["sum"], keepdims=0))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info("sum", onnx.TensorProto.FLOAT, []))
    onnx.save(model, str(tmp_path / "sum.onnx"))
    with pytest.raises(UserError, match=r"sum.onnx gives shape \(\) for 1 images; wanted is one v"):
        make_encoder(choice(tmp_path / "sum.onnx"), 8).encode(image(1, 2, 3))


def test_a_graph_may_take_a_fixed_number_of_images(tmp_path: Path) -> None:
    encoder = make_encoder(choice(onnx_file(tmp_path / "c.onnx", batch=2)), 8)
    images = torch.cat([image(255, 0, 0), image(0, 255, 0), image(0, 0, 255)])
    assert torch.allclose(encoder.encode(images), 2 * torch.eye(3))
    assert torch.equal(encoder.vectors(images), 2 * torch.eye(3).half())


def test_it_goes_to_another_process(tmp_path: Path) -> None:
    encoder = make_encoder(choice(onnx_file(tmp_path / "c.onnx")), 8)
    again = pickle.loads(pickle.dumps(encoder))
    assert torch.equal(again.encode(image(9, 8, 7)), encoder.encode(image(9, 8, 7)))


def test_the_same_file_elsewhere_is_the_same_encoder(tmp_path: Path) -> None:
    file = onnx_file(tmp_path / "c.onnx")
    moved = tmp_path / "moved.onnx"
    moved.write_bytes(file.read_bytes())
    first, second = (make_encoder(choice(each), 8) for each in (file, moved))
    assert first.fingerprint == second.fingerprint


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.write_text("no graph"), "cannot be loaded as ONNX"),
        (lambda path: onnx_file(path, channels=4), r"wanted is one of images, .*\[n, 3, height"),
    ],
)
def test_what_is_no_encoder_is_refused(tmp_path: Path, make: object, said: str) -> None:
    make(tmp_path / "c.onnx")  # type: ignore[operator]
    with pytest.raises(UserError, match=said):
        make_encoder(choice(tmp_path / "c.onnx"), 8)


def test_a_graph_for_one_size_takes_no_other(tmp_path: Path) -> None:
    file = onnx_file(tmp_path / "c.onnx", size=8)
    with pytest.raises(UserError, match=r"data.encoder_size=16: .* of 8x8 pixels only"):
        make_encoder(choice(file, size=16), 8)


@pytest.mark.parametrize("where", ["initializer", "constant", "branch", "sparse", "function"])
def test_weights_in_another_file_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The hash would not cover them, though onnxruntime finds them in the working directory."""
    model = onnx.load(str(onnx_file(tmp_path / "c.onnx")))
    two = model.graph.initializer[0]
    (tmp_path / "side").write_bytes(two.raw_data)
    outside = onnx.TensorProto(name="two", data_type=two.data_type, data_location=1)
    outside.external_data.add(key="location", value="side")
    del model.graph.initializer[:]
    constant = onnx.helper.make_node("Constant", [], ["two"], value=outside)
    if where == "initializer":
        model.graph.initializer.append(outside)
    elif where == "constant":
        model.graph.node.insert(0, constant)
    elif where == "branch":
        branch = onnx.helper.make_graph([constant], "branch", [], [])
        model.graph.node.insert(0, onnx.helper.make_node("If", ["x"], ["two"], then_branch=branch))
    elif where == "sparse":
        model.graph.sparse_initializer.add(dims=[1]).values.CopyFrom(outside)
    else:
        model.functions.add(name="f", domain="d").node.append(constant)
    (tmp_path / "c.onnx").write_bytes(model.SerializeToString())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="has weights in another file") as problem:
        make_encoder(choice(tmp_path / "c.onnx"), 8)
    assert "\n" not in str(problem.value)


@pytest.mark.slow
def test_a_net_that_torch_exports_gives_the_same_features(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="torch.onnx.export needs onnxscript")
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    file = tmp_path / "net.onnx"
    example = torch.zeros(2, 3, 16, 16)
    torch.onnx.export(net.eval(), (example,), str(file), external_data=False)
    encoder = make_encoder(choice(file), 16)
    images = torch.randint(0, 256, (2, 16, 16, 3), dtype=torch.uint8)
    with torch.no_grad():
        wanted = net(images.permute(0, 3, 1, 2) / 255)
    assert torch.allclose(encoder.encode(images), wanted, atol=1e-5)
