"""Secret sharing: so many shares give the secret, fewer give nothing."""

import itertools

import numpy as np

from feddiv.privacy.shamir import PRIME, SHARE, Recovery, shares

SECRET = bytes(range(32))


def split(secret: bytes, threshold: int, count: int, seed: int = 1) -> list[bytes]:
    rng = np.random.default_rng(seed)
    return shares(secret, threshold, count, lambda size: rng.bytes(size))


def test_any_threshold_of_shares_gives_the_secret() -> None:
    parts = split(SECRET, 3, 5)
    assert all(len(part) == SHARE for part in parts)
    for places in itertools.combinations(range(1, 6), 3):
        found = Recovery(list(places)).secret({place: parts[place - 1] for place in places})
        assert found == SECRET


def test_fewer_shares_fit_every_secret() -> None:
    # Of a line through (0, secret), one point says nothing: any secret explains it.
    first = int.from_bytes(split(SECRET, 2, 3)[0], "big")
    for other in (0, 1, 2**256 - 1):
        slope = (first - other) % PRIME
        assert (other + slope) % PRIME == first


def test_a_changed_share_gives_another_secret_or_none() -> None:
    parts = split(SECRET, 2, 3)
    wrong = (int.from_bytes(parts[0], "big") + 1).to_bytes(SHARE, "big")
    assert Recovery([1, 2]).secret({1: wrong, 2: parts[1]}) != SECRET


def test_largest_secret_and_prime() -> None:
    largest = b"\xff" * 32
    parts = split(largest, 2, 2)
    assert Recovery([1, 2]).secret({1: parts[0], 2: parts[1]}) == largest
    assert all(pow(base, PRIME - 1, PRIME) == 1 for base in (2, 3, 5, 7, 11))  # Fermat
