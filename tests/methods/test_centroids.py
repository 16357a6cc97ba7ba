"""Centroids against numbers worked out by hand, in two dimensions."""

import numpy as np
import pytest
import torch
from torch import nn

from feddiv.methods.rofl.centroids import (
    CentroidMean,
    centroid_loss,
    class_means,
    confirms,
    followed,
)

ROOT_HALF = 0.5**0.5


def merged(before: list | None, *local: list) -> list | None:
    mean = CentroidMean(None if before is None else np.array(before, float))
    for centroids in local:
        mean.add(np.array(centroids, float))
    found = mean.mean()
    return None if found is None else found.tolist()


def test_class_means_are_zero_where_a_class_is_absent() -> None:
    features = torch.tensor([[1.0, 3.0], [4.0, 4.0], [3.0, 5.0]])
    means = class_means(features, torch.tensor([0, 2, 0]), 3)
    assert means.tolist() == [[2, 4], [0, 0], [4, 4]]


def test_a_centroid_follows_by_its_squared_cosine() -> None:
    before = torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0], [3.0, 0.0]])
    features = torch.tensor([[0.0, 2.0], [2.0, 0.0], [1.0, 1.0], [0.0, 7.0]])
    after = followed(before, features, torch.tensor([0, 0, 2, 3]))
    # Class 0: the mean is (1, 1), cos = 1 / sqrt 2, so half of the way from (1, 0) to it.
    assert after[0].tolist() == pytest.approx([1.0, 0.5])
    assert after[1].tolist() == [0, 2]  # not in the batch
    assert after[2].tolist() == [0, 0]  # no centroid yet: no angle to it
    assert after[3].tolist() == [3, 0]  # at a right angle


def test_the_given_label_is_confirmed_where_its_centroid_is_nearest_by_angle() -> None:
    centroids = torch.tensor([[1.0, 0.0], [0.0, 9.0], [0.0, 0.0]])
    features = torch.tensor([[5.0, 1.0], [5.0, 1.0], [-1.0, -2.0], [-1.0, -2.0], [-1.0, -2.0]])
    given = torch.tensor([0, 1, 0, 1, 2])
    # (-1, -2) is at 117 degrees from class 0 and at 153 from class 1; class 2 has no centroid,
    # which is at no angle, and not at 90 degrees.
    assert confirms(centroids, features, given).tolist() == [True, False, True, False, False]


def test_without_centroids_nothing_is_confirmed() -> None:
    found = confirms(
        torch.zeros(2, 2), torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([0, 1])
    )
    assert found.tolist() == [False, False]


def test_centroid_loss_and_its_gradient() -> None:
    layer = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(2))
    features = layer(torch.tensor([[3.0, 4.0], [1.0, 1.0]]))
    centroids = torch.tensor([[1.0, 0.0], [8.0, 8.0]])
    loss = centroid_loss(features, centroids, torch.tensor([True, False]))
    assert loss.item() == pytest.approx((4 + 16) / (2 * 2))  # |J| = 2, d = 2
    loss.backward()
    # 2 (h - A) / (|J| d) = (1, 2) of the first sample, times its input (3, 4)
    assert layer.weight.grad is not None
    assert layer.weight.grad.tolist() == [[3, 4], [6, 8]]


def test_the_first_merge_is_the_plain_mean_of_those_who_have_the_class() -> None:
    first, second = [[2, 0], [0, 0], [1, 1]], [[4, 2], [0, 0], [0, 0]]
    assert merged(None, first, second) == [[3, 1], [0, 0], [1, 1]]


def test_later_merges_weigh_by_the_cosine() -> None:
    # Cosines with (1, 0): 1, 1 / sqrt 2, and -1, which counts 0.
    (found,) = merged([[1, 0]], [[2, 0]], [[1, 1]], [[-5, 0]]) or []
    total = 1 + ROOT_HALF
    assert found == pytest.approx([(2 + ROOT_HALF) / total, ROOT_HALF / total])


def test_a_centroid_stays_where_nobody_has_a_say() -> None:
    before = [[1, 0], [0, 2], [3, 3]]
    assert merged(before, [[0, 7], [0, 0], [-1, -1]]) == before
    assert merged(before) == before
    assert merged(None) is None


def test_a_class_first_seen_in_a_later_round_gets_its_centroid_then() -> None:
    assert merged([[1, 0], [0, 0]], [[1, 0], [0, 5]], [[1, 0], [0, 0]]) == [[1, 0], [0, 5]]


def test_no_client_makes_a_centroid_more_than_ten_times_as_long() -> None:
    # Cosines 1 and 1; the liar's (1e6, 0) counts as (20, 0).
    assert merged([[2.0, 0.0]], [[2.0, 0.0]], [[1e6, 0.0]]) == [[11.0, 0.0]]
    assert merged([[2.0, 0.0]], [[2.0, 0.0]], [[19.0, 0.0]]) == [[10.5, 0.0]]
