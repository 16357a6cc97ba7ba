"""Which clients take part: drawn from the seed, and who is asked in the place of whom."""

from collections.abc import Collection, Iterable, Sequence

from feddiv.core.randomness import Streams

SECOND_CHANCE = 0.1  # how often somebody is asked all the same who would be passed over


def choose_clients(clients: Iterable[int], count: int, rng: Streams) -> tuple[int, ...]:
    """`count` clients uniformly without replacement."""
    ids = sorted(clients)
    picked = rng.numpy("select").choice(len(ids), size=min(count, len(ids)), replace=False)
    return tuple(ids[i] for i in picked)


def with_substitutes(
    chosen: Sequence[int], clients: Iterable[int], passed_over: Collection[int], rng: Streams
) -> tuple[int, ...]:
    """The chosen clients, with others in the places of those who are passed over.

    Where nobody else is left they keep their places, and now and then anyway: somebody who is
    passed over by mistake could never show it otherwise.
    """
    if not passed_over:
        return tuple(chosen)
    dice = rng.numpy("substitutes")
    spare = sorted(set(clients) - set(chosen) - set(passed_over))
    others = iter(dice.permutation(spare).tolist())
    kept = dice.random(len(chosen)) < SECOND_CHANCE
    return tuple(
        client if client not in passed_over or stays else next(others, client)
        for client, stays in zip(chosen, kept.tolist(), strict=True)
    )
