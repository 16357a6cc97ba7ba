"""Gaussian noise on the totals that a client uploads.

The noise is on the total, and does not add up: where a method uploads changes, the client uploads
the change of its noisy total. It remembers that with its memory. After `uploads` noisy totals it
repeats the last one, which tells nothing new.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from feddiv.core.arrays import Array
from feddiv.methods.contract import Budget, Declared, Kind, Payload
from feddiv.privacy.accounting import noise_ratio
from feddiv.privacy.options import PrivacyOptions
from feddiv.privacy.primitives import derived, keystream
from feddiv.privacy.totals import pooled

GRID = 2.0**-10  # what is said is a multiple of it: low bits of a sum could give noise away
FAR = 20.0  # standard deviations: nobody's noise is so large
FAR_NORM = 10.0  # the same of the norm of d numbers, above the root of d: once in e^50
Grant = Callable[[str, bytes, int], bool]  # whether this entry's noisy total may be new once more


@dataclass(frozen=True)
class NoisePlan:
    """Noise in sensitivities, and how often each total is uploaded with fresh noise."""

    ratio: float
    uploads: int


def noise_plan(options: PrivacyOptions, budget: Budget, kinds: Mapping[str, Kind]) -> NoisePlan:
    """What epsilon and delta allow for all totals of all uploads together."""
    names = {name for kind in kinds.values() for name in pooled(kind)}
    uploads = options.uploads or expected_uploads(budget)
    ratio = noise_ratio(options.epsilon, options.delta, uploads * max(len(names), 1))
    return NoisePlan(ratio, uploads)


def expected_uploads(budget: Budget) -> int:
    """How often a client uploads: in its share of the rounds after warm-up, and once before."""
    after = budget.rounds - budget.warmup_rounds
    return int(np.ceil(budget.fraction * after - 1e-9)) + 1


@dataclass(frozen=True)
class Told:
    """What a client has uploaded of one total: the true one, the noisy one, how many of these."""

    total: Array
    said: Array
    uploads: int = 0


@dataclass(frozen=True)
class NoiseMemory:
    """What a client remembers of its noise, by entry; it stays at the client."""

    told: dict[str, Told] = field(default_factory=dict)


def noised(
    payload: Payload,
    kind: Kind,
    memory: NoiseMemory,
    plan: NoisePlan,
    secret: bytes,
    grant: Grant,
) -> tuple[Payload, NoiseMemory]:
    """The payload with noise on its pooled entries, and what to remember.

    `secret` is the client's own and of this exchange alone; the noise follows from it and from the
    total, so that the same question gets the same answer.
    """
    noisy, told = dict(payload), dict(memory.told)
    for name, entry in pooled(kind).items():
        if name not in payload:
            continue
        value = np.asarray(payload[name], np.float64)
        zeros = np.zeros(value.shape)
        before = told.get(name, Told(zeros, zeros))
        changes = entry.pooled == "change"
        total = value + before.total if changes else value
        mark = hashlib.sha256(total.tobytes()).digest()
        now = replace(before, total=total)
        if grant(name, mark, before.uploads):
            drawn = gaussian(derived(secret, "noise", name, mark), value.size)
            noise = deviation(entry, plan) * drawn.reshape(value.shape)
            said = np.rint((total + noise) / GRID) * GRID
            now = Told(total, said, before.uploads + 1)
        told[name] = now
        noisy[name] = now.said - before.said if changes else now.said
    return noisy, NoiseMemory(told)


def by_count(uploads: int) -> Grant:
    """As long as there were fewer uploads."""
    return lambda name, mark, before: before < uploads


def deviation(entry: Declared, plan: NoisePlan) -> float:
    """The standard deviation of the noise on every number of an entry."""
    assert entry.sensitivity is not None
    return plan.ratio * entry.sensitivity


def gaussian(key: bytes, size: int) -> Array:
    """Standard normal numbers that follow from a key (Box and Muller)."""
    half = -(-size // 2)
    bits = np.frombuffer(keystream(key, 16 * half), "<u8") >> np.uint64(11)
    first, second = ((bits.astype(np.float64) + 0.5) * 2.0**-53).reshape(2, half)
    radius, angle = np.sqrt(-2 * np.log(first)), 2 * np.pi * second
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size]


def noisy_kind(kind: Kind, plan: NoisePlan) -> Kind:
    """The same kind with bounds that leave room for noise, and no more than that."""
    wider = dict(kind.reply)
    for name, entry in pooled(kind).items():
        room = FAR * deviation(entry, plan)
        low, high = np.asarray(entry.low) - room, np.asarray(entry.high) + room
        wider[name] = replace(
            entry, low=_plain(low), high=_plain(high), impossible=_too_far(entry, plan)
        )
    return replace(kind, reply=wider)


def _too_far(entry: Declared, plan: NoisePlan) -> Callable[[Array, int], str] | None:
    """Why a total cannot be a possible one with noise: nothing possible is near enough.

    The nearest possible total is no further off than the true one, which is as far as the norm of
    the noise. None where a method does not say what is possible.
    """
    nearest = entry.nearest
    if nearest is None:
        return None

    def impossible(total: Array, samples: int) -> str:
        flat = total.reshape(-1)
        most = deviation(entry, plan) * (math.sqrt(flat.size) + FAR_NORM)
        off = float(np.linalg.norm(flat - nearest(flat, samples)))
        return (
            "" if off <= most else f"{off:.3g} from any possible total; noise is below {most:.3g}"
        )

    return impossible


def _plain(value: Array) -> float | tuple[float, ...]:
    return float(value) if value.ndim == 0 else tuple(value.tolist())
