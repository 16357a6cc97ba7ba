"""Who takes part in a secure sum, with their public keys."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from feddiv.core.arrays import Array
from feddiv.core.errors import UserError
from feddiv.methods.contract import Payload
from feddiv.privacy.options import LEAST_CLIENTS
from feddiv.privacy.primitives import KEY
from feddiv.privacy.words import as_bytes, as_words

CLIENTS, KEYS = "privacy.clients", "privacy.keys"
KEY_WORDS = 2 * KEY // 4  # both public keys of a client


@dataclass(frozen=True)
class Roster:
    """Clients by number, and of each the key for letters and the key for masks."""

    clients: tuple[int, ...]
    letter_keys: tuple[bytes, ...]
    mask_keys: tuple[bytes, ...]

    @classmethod
    def read(cls, payload: Payload) -> Roster:
        """As it comes in a message."""
        numbers, keys = payload[CLIENTS], payload[KEYS]
        if numbers.ndim != 1 or keys.shape != (len(numbers), KEY_WORDS):
            raise UserError("privacy: the list of clients and their keys do not fit together")
        clients = tuple(int(number) for number in numbers)
        if list(clients) != sorted(set(clients)) or len(clients) < LEAST_CLIENTS:
            raise UserError(
                f"privacy: a sum is made by {LEAST_CLIENTS} clients at least, each once; the "
                f"server names {len(set(clients))}"
            )
        pairs = [as_bytes(row) for row in keys]
        return cls(clients, tuple(p[:KEY] for p in pairs), tuple(p[KEY:] for p in pairs))

    def payload(self) -> Payload:
        """As it is sent."""
        pairs = zip(self.letter_keys, self.mask_keys, strict=True)
        keys = np.stack([as_words(first + second) for first, second in pairs])
        return {CLIENTS: np.array(self.clients, np.float64), KEYS: keys}

    @property
    def digest(self) -> bytes:
        """By which all can tell that they mean the same roster."""
        text = ",".join(map(str, self.clients)).encode()
        return hashlib.sha256(b"\0".join([text, *self.letter_keys, *self.mask_keys])).digest()

    def threshold(self, share: float) -> int:
        """How many have to stay to the end."""
        return max(math.ceil(share * len(self.clients) - 1e-9), LEAST_CLIENTS)

    def chosen(self, marks: Array) -> list[int]:
        """The places of those that are marked by a number other than 0."""
        if marks.shape != (len(self.clients),):
            raise UserError("privacy: the marks do not fit the list of clients")
        return [place for place, mark in enumerate(marks) if mark]
