"""The server's side of the secure sum: masked rows are added up, then the masks are taken off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from feddiv.core.arrays import Array
from feddiv.methods.contract import Payload
from feddiv.privacy.primitives import public_key
from feddiv.privacy.roster import Roster
from feddiv.privacy.shamir import Recovery
from feddiv.privacy.sum_client import mask, pair_seed, pledge
from feddiv.privacy.words import Layout, Numbers, as_bytes


class NoSum(Exception):
    """The sum cannot be made, and why: the exchange is given up."""


@dataclass
class MaskedSum:
    """The sum of one exchange. `members` are the places in the roster of those who sent shares."""

    roster: Roster
    members: list[int]
    layout: Layout
    threshold: int  # of the roster
    pledges: Mapping[int, bytes]  # by place
    survivors: list[int] = field(default_factory=list)  # places whose rows are in the sum

    def __post_init__(self) -> None:
        self.row: Numbers = np.zeros(self.layout.size, np.uint64)

    def add(self, client: int, payload: Payload) -> None:
        """The masked entries of one client."""
        self.row = self.row + self.layout.read(payload)
        self.survivors.append(self.roster.clients.index(client))

    def unmasked(self, said: Mapping[int, Array]) -> Payload:
        """The sum, from the shares [members, words] that survivors gave, by place."""
        if len(said) < self.threshold:
            raise NoSum(f"{len(said)} of {self.threshold} clients helped to take the masks off")
        places = sorted(said)[: self.threshold]
        recovery = Recovery([place + 1 for place in places])
        row = self.row
        for member in self.members:
            shares = {place + 1: as_bytes(said[place][member]) for place in places}
            secret = recovery.secret(shares)
            row = row - self._mask_of(member, secret)
        return self.layout.decoded(row)

    def _mask_of(self, member: int, secret: bytes | None) -> Numbers:
        """What is in the sum of a survivor's own mask, or of those that others share with it."""
        client, size = self.roster.clients[member], self.layout.size
        if member in self.survivors:
            if secret is None or pledge(secret) != self.pledges[member]:
                raise NoSum(f"the shares of client {client}'s mask do not fit together")
            return mask(secret, size)
        if secret is None or public_key(secret) != self.roster.mask_keys[member]:
            raise NoSum(f"the shares of client {client}'s key do not fit together")
        left = np.zeros(size, np.uint64)
        for place in self.survivors:  # each added or subtracted the mask that it shared with it
            pair = mask(pair_seed(secret, self.roster.mask_keys[place], self.roster), size)
            left = left + pair if place < member else left - pair
        return left
