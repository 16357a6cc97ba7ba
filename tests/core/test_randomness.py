import itertools

import numpy as np
import pytest
import torch

from feddiv.core.randomness import Streams

HERE = Streams(seed=3).at(round=7, exchange=1, client=2)


def test_a_stream_always_starts_from_its_beginning() -> None:
    assert np.array_equal(HERE.numpy("order").random(5), HERE.numpy("order").random(5))
    assert torch.equal(
        torch.rand(5, generator=HERE.torch("order")), torch.rand(5, generator=HERE.torch("order"))
    )


def test_every_place_and_purpose_has_its_own_stream() -> None:
    places = [
        Streams(seed, round, exchange, client).number(purpose)
        for seed, round, exchange, client, purpose in itertools.product(
            (0, 1, 11), (0, 1, 11), (0, 1), (-1, 0, 1), ("order", "mixup", "1")
        )
    ]
    assert len(set(places)) == len(places) == 162


def test_at_changes_what_it_names_and_nothing_else() -> None:
    assert Streams(3, 7, 1, 2) == HERE
    assert HERE.at(client=5) == Streams(3, 7, 1, 5)
    assert HERE.at(round=0, exchange=0) == Streams(3, 0, 0, 2)
    assert HERE.at() == HERE


def test_numbers_are_the_same_on_every_machine() -> None:
    # 63 bits, so that any generator takes it; a change here changes every published run.
    assert Streams(0).number("model net") == 8318964948446173043
    assert all(0 <= HERE.number(str(i)) < 2**63 for i in range(100))


def test_seeded_gives_the_same_initial_weights_and_restores_the_global_generator() -> None:
    torch.manual_seed(99)
    untouched = torch.rand(3)
    torch.manual_seed(99)
    with HERE.seeded("model"):
        first = torch.nn.Linear(4, 4).weight
    assert torch.equal(torch.rand(3), untouched)
    with HERE.seeded("model"):
        again = torch.nn.Linear(4, 4).weight
    with HERE.seeded("another"):
        other = torch.nn.Linear(4, 4).weight
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_seeded_restores_the_global_generator_after_an_error() -> None:
    torch.manual_seed(99)
    untouched = torch.rand(3)
    torch.manual_seed(99)
    with pytest.raises(TypeError), HERE.seeded("model"):
        torch.rand(1).add("one")
    assert torch.equal(torch.rand(3), untouched)
