import numpy as np
import pytest
import torch
from pydantic import ValidationError

from feddiv.data import Augment, Transform

MEAN, STD = (0.5, 0.25, 0.0), (0.5, 0.25, 1.0)


def images(batch: int, height: int = 5, width: int = 7, channels: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(batch)
    shape = (batch, height, width, channels)
    return torch.randint(1, 256, shape, generator=generator, dtype=torch.uint8)


def raw(output: torch.Tensor) -> np.ndarray:
    """Undo the normalisation of mean 0, std 1: uint8 [B,H,W,C]."""
    return (output * 255).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()


def every_version(image: np.ndarray, pad: int, flip: bool) -> list[bytes]:
    """All crops of the padded image and of its mirror image, one by one."""
    height, width, _ = image.shape
    versions = []
    for mirrored in [image, image[:, ::-1]] if flip else [image]:
        canvas = np.pad(mirrored, ((pad, pad), (pad, pad), (0, 0)))
        for top in range(2 * pad + 1):
            for left in range(2 * pad + 1):
                versions.append(canvas[top : top + height, left : left + width].tobytes())
    return versions


def test_known_pixels_get_known_values() -> None:
    pixel = torch.tensor([[[[255, 0, 51]]]], dtype=torch.uint8)
    result = Transform(MEAN, STD, Augment()).plain(pixel)
    assert result.shape == (1, 3, 1, 1)
    assert result.flatten().tolist() == pytest.approx([1.0, -1.0, 0.2])


def test_normalising_equals_the_textbook_formula() -> None:
    batch = images(4)
    expected = (batch.double() / 255 - torch.tensor(MEAN)) / torch.tensor(STD)
    result = Transform(MEAN, STD, Augment()).plain(batch)
    torch.testing.assert_close(result.double(), expected.permute(0, 3, 1, 2), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("augment", [Augment(), Augment(pad=2, flip=True)])
def test_batches_are_float32_in_channels_last(augment: Augment) -> None:
    result = Transform(MEAN, STD, augment).augmented(images(4), torch.Generator())
    assert result.dtype == torch.float32
    assert result.shape == (4, 3, 5, 7)
    assert result.is_contiguous(memory_format=torch.channels_last)


def test_one_mean_serves_all_channels_and_two_shapes() -> None:
    transform = Transform((0.5,), (0.5,), Augment())
    for batch in (images(2), images(2, 3, 3), images(2, 3, 3, 1)):
        expected = (batch.float() / 255 - 0.5) / 0.5
        torch.testing.assert_close(transform.plain(batch), expected.permute(0, 3, 1, 2))


@pytest.mark.parametrize(("pad", "flip"), [(0, True), (1, False), (2, True), (4, True)])
@pytest.mark.parametrize("channels", [1, 3])
def test_every_augmented_image_is_a_crop_of_itself(pad: int, flip: bool, channels: int) -> None:
    batch = images(40, channels=channels)
    transform = Transform((0.0,), (1.0,), Augment(pad=pad, flip=flip))
    result = raw(transform.augmented(batch, torch.Generator().manual_seed(1)))
    for before, after in zip(batch.numpy(), result, strict=True):
        assert after.tobytes() in every_version(before, pad, flip)


def test_every_place_and_both_sides_come_up_equally_often() -> None:
    image = images(1)
    transform = Transform((0.0,), (1.0,), Augment(pad=1, flip=True))
    result = raw(
        transform.augmented(image.expand(9000, -1, -1, -1), torch.Generator().manual_seed(2))
    )
    versions = every_version(image[0].numpy(), 1, True)
    assert len(set(versions)) == 18
    counts = [0] * 18
    for after in result:
        counts[versions.index(after.tobytes())] += 1
    # 500 expected each, standard deviation 22: five of them.
    assert min(counts) > 390
    assert max(counts) < 610


def test_the_border_is_black_before_normalising() -> None:
    white = torch.full((50, 2, 2, 1), 255, dtype=torch.uint8)
    result = Transform((0.5,), (0.5,), Augment(pad=1)).augmented(
        white, torch.Generator().manual_seed(0)
    )
    assert set(result.flatten().tolist()) == {-1.0, 1.0}


def test_the_generator_decides_and_the_input_stays() -> None:
    batch = images(20)
    before = batch.clone()
    transform = Transform(MEAN, STD, Augment(pad=2, flip=True))
    first = transform.augmented(batch, torch.Generator().manual_seed(5))
    assert torch.equal(first, transform.augmented(batch, torch.Generator().manual_seed(5)))
    assert not torch.equal(first, transform.augmented(batch, torch.Generator().manual_seed(6)))
    transform.plain(batch)
    assert torch.equal(batch, before)


def test_feature_vectors_are_only_normalised() -> None:
    batch = torch.tensor([[1.0, 10.0], [3.0, 30.0]])
    transform = Transform((2.0, 20.0), (1.0, 10.0), Augment(pad=3, flip=True))
    expected = torch.tensor([[-1.0, -1.0], [1.0, 1.0]])
    assert torch.equal(transform.plain(batch), expected)
    assert torch.equal(transform.augmented(batch, torch.Generator()), expected)
    assert batch[0, 0] == 1.0


def test_empty_batches_pass_through() -> None:
    transform, none = Transform(MEAN, STD, Augment(pad=2, flip=True)), images(0)
    assert transform.plain(none).shape == (0, 3, 5, 7)
    assert transform.augmented(none, torch.Generator()).shape == (0, 3, 5, 7)


def test_negative_padding_is_refused() -> None:
    with pytest.raises(ValidationError):
        Augment(pad=-1)
