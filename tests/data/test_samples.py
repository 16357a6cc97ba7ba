"""Feature vectors of a client, which are normalised once."""

from dataclasses import replace

import pytest
import torch

from feddiv.data import Augment, Samples, Transform
from feddiv.data import samples as module
from feddiv.data.transform import AsTheyAre

ROWS = torch.tensor([2, 0, 2])


def vectors(dtype: torch.dtype = torch.float32) -> Samples:
    inputs = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    transform = Transform((0.1, 0.2, 0.3, 0.4), (1.5, 0.7, 1.0, 3.0), Augment())
    return Samples(inputs, torch.tensor([5, 1, 3]), torch.tensor([0, 1, 0]), None, transform)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_same_bits_as_normalised_each_time(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = vectors(dtype)
    monkeypatch.setattr(module, "MOST_AT_ONCE", 11)  # one less than they are
    each = vectors(dtype)
    assert each._vectors is None
    monkeypatch.undo()
    expected = samples.transform.plain(samples.inputs[[3, 5, 3]])
    generator = torch.Generator()
    for one in (samples, each):
        assert torch.equal(one.plain(ROWS), expected)
        assert torch.equal(one.augmented(ROWS, generator), expected)
        assert torch.equal(one.plain(slice(2, None)), expected[:1])
        assert one.plain(ROWS).dtype == torch.float32
    assert samples._vectors is not None


def test_whoever_gets_them_may_change_them() -> None:
    samples = vectors()
    before = samples.plain(ROWS)
    for rows in (ROWS, slice(None)):
        samples.plain(rows).zero_()
        samples.augmented(ROWS, torch.Generator()).zero_()
    assert torch.equal(samples.plain(ROWS), before)
    assert samples.inputs.abs().sum() > 0


def test_a_change_of_somebody_s_own_is_still_made() -> None:
    own = replace(vectors(), transform=AsTheyAre(each=lambda sample: sample + 1))
    assert torch.equal(own.augmented(ROWS, torch.Generator()), own.plain(ROWS) + 1)
    assert torch.equal(own.plain(ROWS), own.inputs[[3, 5, 3]])


@pytest.mark.parametrize(
    ("augment", "window", "draws"),
    [
        (Augment(), None, False),
        (Augment(flip=True), None, True),
        (Augment(pad=1), None, True),
        (Augment(), (3, 3), True),
        (Augment(), (4, 4), False),
    ],
)
def test_which_images_are_augmented(
    augment: Augment, window: tuple[int, int] | None, draws: bool
) -> None:
    transform = Transform((0.5,), (0.5,), augment, window)
    assert transform.draws_for(torch.zeros(2, 4, 4, 1, dtype=torch.uint8)) == draws
    assert not transform.draws_for(torch.zeros(2, 4))
