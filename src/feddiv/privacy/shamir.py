"""Secret sharing: any `threshold` shares give the secret, fewer tell nothing (Shamir, 1979)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

PRIME = 2**257 - 93  # above every secret of 32 bytes
SHARE = 36  # bytes of a share, whole words of four


def shares(
    secret: bytes, threshold: int, count: int, random: Callable[[int], bytes]
) -> list[bytes]:
    """`count` shares, for the places 1, 2, …: points of a random polynomial of that degree.

    `random` gives so many bytes.
    """
    size = SHARE + 8  # so many that the remainder by PRIME is as good as uniform
    drawn = random(size * (threshold - 1))
    coefficients = [int.from_bytes(secret, "big")] + [
        int.from_bytes(drawn[start : start + size], "big") % PRIME
        for start in range(0, len(drawn), size)
    ]
    return [_at(coefficients, place).to_bytes(SHARE, "big") for place in range(1, count + 1)]


def _at(coefficients: list[int], place: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * place + coefficient) % PRIME
    return value


class Recovery:
    """Secrets from the shares of the same places: what Lagrange needs of these is found once."""

    def __init__(self, places: list[int]) -> None:
        self.places = places
        self.weights: list[int] = []
        for place in places:
            above, below = 1, 1
            for other in places:
                if other != place:
                    above = above * other % PRIME
                    below = below * (other - place) % PRIME
            self.weights.append(above * pow(below, -1, PRIME) % PRIME)

    def secret(self, said: Mapping[int, bytes]) -> bytes | None:
        """The secret whose shares these are, by place; None where they are no one's."""
        value = 0
        for place, weight in zip(self.places, self.weights, strict=True):
            value = (value + weight * int.from_bytes(said[place], "big")) % PRIME
        return value.to_bytes(32, "big") if value < 2**256 else None
