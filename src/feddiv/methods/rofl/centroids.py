"""Class centroids: mean features by class, which clients move and the server merges."""

from __future__ import annotations

import numpy as np
import torch

from feddiv.core.arrays import Array

LONGEST = 10.0  # times the row of G: an honest centroid moves far less in a round
LEAST_WEIGHT = 1e-8  # below this sum of cosines nobody has a say in a centroid


def class_means(features: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
    """Mean features [C, d] by label; zero rows for absent classes."""
    members = torch.nn.functional.one_hot(labels, classes).T.to(features.dtype)
    return members @ features / members.sum(dim=1, keepdim=True).clamp_min(1)


def confirms(centroids: torch.Tensor, features: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """m [B]: whether no centroid is nearer by cosine to h than that of the given label.

    A zero row is no centroid: it is nearest to nothing, and confirms nothing.
    """
    cosines = (
        torch.nn.functional.normalize(features, dim=1)
        @ torch.nn.functional.normalize(centroids, dim=1).T
    )
    cosines = cosines.masked_fill((centroids == 0).all(dim=1), -torch.inf)
    own = cosines.gather(1, given[:, None]).squeeze(1)
    return (own == cosines.amax(dim=1)) & own.isfinite()


def centroid_loss(
    features: torch.Tensor, centroids: torch.Tensor, confident: torch.Tensor
) -> torch.Tensor:
    """L_cen = sum_J m ||h - A_y||^2 / (|J| d), whose size depends on neither batch nor net."""
    distances = (features - centroids).square().mean(dim=1)
    return (confident * distances).mean()


def followed(centroids: torch.Tensor, features: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """A_c <- (1 - s_c) A_c + s_c Â_c with s_c = cos(A_c, Â_c)^2, Â_c the mean of a batch.

    A class that is not in the batch has a zero Â_c, whose cosine is 0: its centroid stays.
    """
    means = class_means(features, given, len(centroids))
    share = torch.nn.functional.cosine_similarity(centroids, means, dim=1).square()
    return centroids + share[:, None] * (means - centroids)


class CentroidMean:
    """G_c <- sum_k a_kc A_kc / sum_k a_kc with a_kc = cos(G_c, A_kc), at least 0.

    A class that has no centroid yet takes the plain mean of the clients that have one. Where no
    client counts, G_c stays. No row counts as longer than ten times that of G.
    """

    def __init__(self, before: Array | None) -> None:
        self.before = before
        self.sums, self.weights = np.zeros((1, 1)), np.zeros(1)  # [C, d] and [C] from `add` on

    def add(self, local: Array) -> None:
        """Add one client's A [C, d]; one of another width than the others' does not count."""
        if self.before is None:
            self.before = np.zeros_like(local)
        if local.shape != self.before.shape:
            return
        lengths, known = np.linalg.norm(local, axis=1), np.linalg.norm(self.before, axis=1)
        tiny = np.finfo(np.float64).tiny
        longer = (known > 0) & (lengths > LONGEST * known)
        if longer.any():
            shrunk = np.where(longer, LONGEST * known / np.maximum(lengths, tiny), 1.0)
            local, lengths = local * shrunk[:, None], lengths * shrunk
        products = (self.before * local).sum(axis=1)
        cosines = products / np.maximum(lengths * known, tiny)
        weights = np.where(known > 0, np.maximum(cosines, 0.0), lengths > 0)
        self.sums = self.sums + weights[:, None] * local
        self.weights = self.weights + weights

    def mean(self) -> Array | None:
        """The next G; None where no client ever sent any."""
        if self.before is None:
            return None
        heard = (self.weights >= LEAST_WEIGHT)[:, None]
        return np.where(heard, self.sums / np.where(heard, self.weights[:, None], 1), self.before)
