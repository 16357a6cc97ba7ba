"""A secure sum by hand: members, who stays, and what the server makes of it."""

import numpy as np

from feddiv.privacy.roster import Roster
from feddiv.privacy.sum_client import LETTERS, PLEDGE, Member
from feddiv.privacy.sum_server import MaskedSum
from feddiv.privacy.words import Layout, as_bytes

LAYOUT = Layout({"histogram": (4,), "softmax": (3,)}, {"histogram": 50, "softmax": 50})


def member(client: int, run: int = 0, threshold: float = 2 / 3) -> Member:
    """A client whose secret is a function of its number and of the exchange."""
    return Member(client, np.random.default_rng([client, run]).bytes(32), threshold)


def roster_of(members: list[Member]) -> Roster:
    """Step A."""
    keys = [as_bytes(each.keys()) for each in members]
    return Roster(
        tuple(each.client for each in members),
        tuple(key[:32] for key in keys),
        tuple(key[32:] for key in keys),
    )


class Exchange:
    """Steps A to D among these members."""

    def __init__(self, members: list[Member], layout: Layout = LAYOUT) -> None:
        self.members, self.layout = members, layout
        self.roster = roster_of(members)
        said = [each.letters(self.roster) for each in members]
        self.letters = [payload[LETTERS] for payload in said]
        self.everybody = list(range(len(members)))
        threshold = self.roster.threshold(members[0].threshold)
        pledges = {place: as_bytes(payload[PLEDGE]) for place, payload in enumerate(said)}
        self.sum = MaskedSum(self.roster, self.everybody, layout, threshold, pledges)

    def upload(self, place: int, payload: dict) -> dict:
        """Step C of one member: what the server stores of it."""
        return self.members[place].masked(self.roster, self.everybody, self.layout, payload)

    def add(self, place: int, payload: dict) -> None:
        """Step C of one member, and into the sum."""
        self.sum.add(self.members[place].client, self.upload(place, payload))

    def for_place(self, place: int) -> np.ndarray:
        """The letters to one member, one row for each sender."""
        return np.stack([rows[place] for rows in self.letters])

    def shares(self, place: int, survivors: list[int]) -> np.ndarray:
        """Step D of one member."""
        letters = self.for_place(place)
        return self.members[place].shares(self.roster, self.everybody, survivors, letters)

    def unmasked(self, helpers: list[int] | None = None) -> dict:
        """Step D of those who answered, or of some of them."""
        survivors = sorted(self.sum.survivors)
        chosen = survivors if helpers is None else helpers
        return self.sum.unmasked({place: self.shares(place, survivors) for place in chosen})
