from pathlib import Path

import pytest
import torch

from feddiv.core import import_path
from feddiv.core.errors import UserError
from feddiv.core.import_path import NotAllowed, named_in
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.contract import Encoder
from feddiv.encoders.registry import find_encoder, make_encoder

pytest.importorskip("onnx", reason="needs the dev extra")

from tests.encoders.colours import Colours

HERE = "tests.encoders.colours"


def test_features_by_hand() -> None:
    encoder = make_encoder(EncoderChoice(f"{HERE}:Colours"), 2)
    assert (encoder.width, encoder.choice.size, encoder.choice.mean) == (4, 8, (0.0, 0.0, 0.0))
    image = torch.zeros(1, 2, 2, 3, dtype=torch.uint8)
    image[..., 0] = 255
    assert torch.allclose(encoder.encode(image), torch.tensor([[1.0, 0, 0, 1 / 3]]))


def test_weights_and_code_name_the_vectors() -> None:
    one, other = (
        make_encoder(EncoderChoice(f"{HERE}:{name}"), 2) for name in ("Colours", "OtherColours")
    )
    assert one.sha256 != other.sha256
    assert one.fingerprint != other.fingerprint


def test_changed_code_with_the_same_weights_names_other_vectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def made() -> Encoder:
        return make_encoder(EncoderChoice(f"{HERE}:Colours"), 2)

    before, same = made(), made()
    assert before.fingerprint == same.fingerprint
    forward = Colours.forward
    monkeypatch.setattr(Colours, "forward", lambda self, x: forward(self, x.clamp(max=0.99)))
    after = made()
    assert after.sha256 == before.sha256
    assert after.fingerprint != before.fingerprint


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_module", "gave a str, not a torch.nn.Module"),
        ("WIDTH", "the factory failed"),
        ("Nobody", "has no 'Nobody'"),
    ],
)
def test_what_is_no_module_is_refused(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        make_encoder(EncoderChoice(f"{HERE}:{name}"), 2)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Complex", "gives complex numbers"),
        ("TooSmall", "takes images of 4 pixels a side; possible are 8 to 4,096"),
        ("NoSpread", "and std 0, which cannot be; set data.encoder_mean"),
        ("NoNumber", "data.encoder_std=: give 1 number, or 3"),
    ],
)
def test_what_gives_no_features_is_refused_in_one_line(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        make_encoder(EncoderChoice(f"{HERE}:{name}"), 2).vectors(
            torch.full((1, 2, 2, 3), 255, dtype=torch.uint8)
        )


def test_a_module_that_mixes_images_is_refused() -> None:
    encoder = make_encoder(EncoderChoice(f"{HERE}:Mixing"), 2)
    with pytest.raises(UserError, match="other features when other images are beside it"):
        _ = encoder.fingerprint  # before anything is encoded


def test_whole_numbers_are_pooled_too() -> None:
    image = torch.full((1, 8, 8, 3), 7, dtype=torch.uint8)
    image[:, 4:] = 8
    mean, most = (
        make_encoder(EncoderChoice(f"{HERE}:Whole", pooling=how), 8) for how in ("mean", "max")
    )
    assert mean.vectors(image).tolist() == [[7.5, 7.5, 7.5]]
    assert most.vectors(image).tolist() == [[8.0, 8.0, 8.0]]


def test_the_mean_of_maps_is_of_their_own_type() -> None:
    """Vectors that are in somebody's cache were rounded so."""
    image = torch.zeros(1, 8, 8, 3, dtype=torch.uint8)
    image[:, 0, 0] = 255
    encoder = make_encoder(EncoderChoice(f"{HERE}:Coarse", pooling="mean"), 8)
    third = torch.tensor(1 + 1 / 64 / 3)  # bfloat16 has 8 bits: 1.0078 is what is next to 1
    assert encoder.vectors(image).tolist() == [[float(third.bfloat16())] * 3]


def test_a_file_of_somebody_else_imports_nothing_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_path, "_named", set())  # other tests of this process have named it
    path = "tests.encoders.colours:Maps"
    with named_in(tmp_path / "config.toml", ()), pytest.raises(NotAllowed, match="--allow"):
        make_encoder(EncoderChoice(path), 2)
    with named_in(tmp_path / "config.toml", [path]):
        make_encoder(EncoderChoice(path), 2)


def test_timm_is_asked_for_and_never_by_a_file(tmp_path: Path) -> None:
    name = "timm:resnet18"
    with named_in(tmp_path / "config.toml", ()), pytest.raises(NotAllowed, match="--allow timm:"):
        make_encoder(EncoderChoice(name), 2)
    try:
        import timm  # noqa: F401
    except Exception:
        with pytest.raises(UserError, match=r"timm cannot be imported .* install timm and"):
            make_encoder(EncoderChoice(name), 2)


@pytest.mark.slow
def test_a_net_of_timm() -> None:
    try:
        import timm  # noqa: F401
    except Exception:
        pytest.skip("timm (with a torchvision that fits torch) is not installed")
    try:
        encoder = make_encoder(EncoderChoice("timm:resnet18"), 32)
    except UserError as problem:
        pytest.skip(f"no weights to be had: {problem}")
    assert encoder.width == 512


def test_names_that_are_no_encoder() -> None:
    with pytest.raises(UserError, match=r"did you mean 'effnet_lite0'.*there are .*FILE.onnx"):
        find_encoder("effnet_lite")
