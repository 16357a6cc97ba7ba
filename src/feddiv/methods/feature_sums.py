"""What clients tell of their feature vectors, so that all are standardised alike.

Each adds up its own vectors, and their squares, feature by feature. The exchange goes the way of
all others, before the first round; a client's memory stays as it was.
"""

from __future__ import annotations

import numpy as np

from feddiv.core.arrays import Array
from feddiv.core.errors import UserError
from feddiv.data.statistics import feature_sums
from feddiv.methods.contract import Client, Declared, Kind, Payload, Reply

KIND = "standardise"
FEWEST = 5  # samples of a client that tells its sums: those of one would be the sample
LARGEST = 1e12  # of a feature: squares of larger ones, added up, have no digits left
CHUNK = 4096  # vectors that are added up at a time
ROUNDING = 1e-9  # by which a sum of squares may be too small for its sum


def sums_kind(features: int, samples: int) -> Kind:
    """Sums and sums of squares of a client with so many samples; a small one tells none."""
    most = LARGEST * samples
    total = Declared((features,), low=-most, high=most, optional=True)
    squares = Declared((features,), low=0.0, high=LARGEST * most, optional=True)
    return Kind({"sum": total, "squares": squares}, models=())


def told_sums(client: Client) -> Reply:
    """The client's own sums, of the samples that it trains on."""
    samples = len(client)
    if samples < FEWEST:
        return Reply(client.id, samples)
    sums: list[tuple[Array, Array]] = []
    for start in range(0, samples, CHUNK):
        features = client.samples.stored(slice(start, start + CHUNK)).cpu().numpy()
        size = float(np.abs(features).max())
        if size > LARGEST:
            raise UserError(
                f"data.standardise=clients: a feature of client {client.id} is {size:.3g} in size, "
                f"at most {LARGEST:.0g} can be added up"
            )
        sums.append(feature_sums(features))
    total, squares = (np.sum(each, axis=0) for each in zip(*sums, strict=True))
    return Reply(client.id, samples, payload={"sum": total, "squares": squares})


def contradiction(payload: Payload, samples: int) -> str:
    """Why no client of so many samples has these sums; an empty text where one may."""
    if payload.keys() not in ({"sum", "squares"}, set()):
        return "tells one of sum and squares without the other"
    if payload and samples < FEWEST:
        return "tells sums of so few samples"
    # Cauchy and Schwarz.
    if payload and (payload["sum"] ** 2 > payload["squares"] * samples * (1 + ROUNDING)).any():
        return "tells squares that are too small for their sum"
    return ""
