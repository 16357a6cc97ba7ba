"""A client's side of the secure sum of Bonawitz et al. (CCS 2017), one call for each step.

A: it tells its public keys. B: it sends everybody a share of its mask key and of the seed of its
own mask, sealed. C: it adds a mask to what the method uploads: one of its own, and one for each
other client that this one subtracts. D: of every client that answered it gives the share of the
seed, of every other the share of the mask key, never both.

Between the steps it remembers nothing: its keys follow from its secret, which is another one in
every exchange.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from feddiv.core.arrays import Array
from feddiv.core.errors import UserError
from feddiv.methods.contract import Payload
from feddiv.privacy.primitives import TAG, agreed, derived, keystream, public_key, sealed, unsealed
from feddiv.privacy.roster import Roster
from feddiv.privacy.shamir import SHARE, shares
from feddiv.privacy.words import Layout, Numbers, as_bytes, as_words

LETTERS, PLEDGE, SHARES = "privacy.letters", "privacy.pledge", "privacy.shares"
MEMBERS, SURVIVORS, BITS = "privacy.members", "privacy.survivors", "privacy.bits"
STEP_KEYS, STEP_LETTERS, STEP_SHARES = "privacy keys", "privacy letters", "privacy shares"
STEPS = (STEP_KEYS, STEP_LETTERS, STEP_SHARES)
LETTER_WORDS = (2 * SHARE + TAG) // 4
SHARE_WORDS = SHARE // 4


def mask(seed: bytes, size: int) -> Numbers:
    """The mask that a seed stands for."""
    return np.frombuffer(keystream(seed, 8 * size), "<u8").astype(np.uint64)


def pair_seed(private: bytes, public: bytes, roster: Roster) -> bytes:
    """The seed of the mask that two clients share in this exchange."""
    return derived(agreed(private, public), "mask", roster.digest)


def pledge(seed: bytes) -> bytes:
    """By which the server can tell that it got the right seed."""
    return hashlib.sha256(b"pledge" + seed).digest()


@dataclass(frozen=True)
class Member:
    """A client in one exchange. `secret` is its own and of this exchange alone."""

    client: int
    secret: bytes
    threshold: float  # share of the roster

    @property
    def letter_key(self) -> bytes:
        """Private, for letters."""
        return derived(self.secret, "letter key")

    @property
    def mask_key(self) -> bytes:
        """Private, for the masks that it shares with others."""
        return derived(self.secret, "mask key")

    def seed(self, roster: Roster) -> bytes:
        """Of the mask that is its own."""
        return derived(self.secret, "own mask", roster.digest)

    # The steps

    def keys(self) -> Array:
        """Step A."""
        return as_words(public_key(self.letter_key) + public_key(self.mask_key))

    def letters(self, roster: Roster) -> Payload:
        """Step B: sealed shares for everybody; in its own row nothing."""
        place = self._place(roster)
        rows = np.zeros((len(roster.clients), LETTER_WORDS))
        for other, text in enumerate(self._shares(roster)):
            if other != place:
                letter = sealed(self._letter_key(roster, other), place, text, roster.digest)
                rows[other] = as_words(letter)
        return {LETTERS: rows, PLEDGE: as_words(pledge(self.seed(roster)))}

    def masked(
        self, roster: Roster, members: list[int], layout: Layout, entries: Payload
    ) -> Payload:
        """Step C: the entries under masks that cancel in the sum over all members."""
        place = self._place(roster)
        if place not in members or len(members) < roster.threshold(self.threshold):
            raise UserError(f"privacy: {len(members)} clients are too few to hide among")
        row = layout.encoded(entries) + mask(self.seed(roster), layout.size)
        private = self.mask_key
        for other in members:
            if other != place:
                seed = pair_seed(private, roster.mask_keys[other], roster)
                pair = mask(seed, layout.size)
                row = row + pair if place < other else row - pair
        return layout.masked(row)

    def shares(
        self, roster: Roster, members: list[int], survivors: list[int], letters: Array
    ) -> Array:
        """Step D: of each survivor the share of its seed, of each other member that of its key."""
        place, least = self._place(roster), roster.threshold(self.threshold)
        if place not in survivors or not set(survivors) <= set(members) or len(survivors) < least:
            raise UserError(f"privacy: {len(survivors)} clients are too few to tell their sum")
        if letters.shape != (len(roster.clients), LETTER_WORDS):
            raise UserError("privacy: the letters do not fit the list of clients")
        rows = np.zeros((len(roster.clients), SHARE_WORDS))
        for other in members:
            if other == place:
                text = self._shares(roster)[place]
            else:
                text = self._opened(roster, other, letters[other])
            part = text[:SHARE] if other in survivors else text[SHARE:]
            rows[other] = as_words(part)
        return rows

    # How they are done

    def _place(self, roster: Roster) -> int:
        mine = (public_key(self.letter_key), public_key(self.mask_key))
        for place, client in enumerate(roster.clients):
            if client == self.client:
                if (roster.letter_keys[place], roster.mask_keys[place]) != mine:
                    raise UserError("privacy: the server gives out other keys than this client's")
                return place
        raise UserError(f"privacy: client {self.client} is not among the clients of the sum")

    def _shares(self, roster: Roster) -> list[bytes]:
        """For each place a share of the seed, then one of the mask key."""
        count, least = len(roster.clients), roster.threshold(self.threshold)

        def split(what: str, secret: bytes) -> list[bytes]:
            key = derived(self.secret, "shares", what, roster.digest)
            return shares(secret, least, count, lambda size: keystream(key, size))

        pairs = zip(split("seed", self.seed(roster)), split("key", self.mask_key), strict=True)
        return [first + second for first, second in pairs]

    def _letter_key(self, roster: Roster, other: int) -> bytes:
        common = agreed(self.letter_key, roster.letter_keys[other])
        return derived(common, "letters", roster.digest)

    def _opened(self, roster: Roster, other: int, letter: Array) -> bytes:
        key = self._letter_key(roster, other)
        try:
            return unsealed(key, other, as_bytes(letter), roster.digest)
        except ValueError as problem:
            client = roster.clients[other]
            raise UserError(f"privacy: the letter of client {client}: {problem}") from None
