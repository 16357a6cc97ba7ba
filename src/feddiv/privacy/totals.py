"""The entries of a kind that only their sum is needed of, and how they are declared when masked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from feddiv.methods.contract import Declared, Kind
from feddiv.privacy.words import LEAST_BITS, WORD, Layout, bits_for, not_words


def pooled(kind: Kind) -> dict[str, Declared]:
    """The pooled entries, sorted by name."""
    return {name: kind.reply[name] for name in sorted(kind.reply) if kind.reply[name].pooled}


def masked_kind(kind: Kind) -> Kind:
    """The same kind with every pooled entry as two words for each number; none may be absent."""
    words = {
        name: Declared((2, *entry.shape), 0.0, WORD - 1, impossible=not_words)
        for name, entry in pooled(kind).items()
    }
    return replace(kind, reply={**kind.reply, **words})


def bound(entry: Declared) -> float:
    """The largest number that an entry may hold."""
    return float(max(np.max(np.abs(entry.low)), np.max(np.abs(entry.high))))


def layout_of(kind: Kind, bits: Mapping[str, int]) -> Layout:
    """How the pooled entries lie one after the other."""
    shapes = {
        name: tuple(side for side in entry.shape if side is not None)
        for name, entry in pooled(kind).items()
    }
    return Layout(shapes, dict(bits))


def bits_of(kind: Kind, clients: int) -> dict[str, int]:
    """Binary places of each pooled entry, so that no sum over so many clients overflows."""
    return {name: bits_for(bound(entry), clients) for name, entry in pooled(kind).items()}


def overflowing(kind: Kind, clients: int) -> str:
    """The name of an entry whose sum over so many clients has no room; empty where all have."""
    bits = bits_of(kind, clients)
    return next((name for name, places in bits.items() if places < LEAST_BITS), "")


def unsummable(entry: Declared) -> str:
    """Why an entry cannot be masked; an empty text where it can."""
    if None in entry.shape:
        return "its shape is not known beforehand"
    return "" if math.isfinite(bound(entry)) else "it has no bounds"
