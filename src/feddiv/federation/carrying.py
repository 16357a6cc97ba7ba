"""Which way an exchange is carried out, by the private filter that the experiment asks for."""

from __future__ import annotations

from typing import Any

from feddiv.core.randomness import Streams
from feddiv.federation.carriage import Carriage, Note
from feddiv.federation.federation import Federation
from feddiv.federation.noisy_totals import NoisyTotals
from feddiv.federation.secure_sum import SecureSum
from feddiv.methods.contract import Exchange, Kind, Method
from feddiv.privacy.noise import noise_plan
from feddiv.privacy.options import PrivacyOptions
from feddiv.privacy.totals import pooled


def carriage_of(
    method: Method[Any, Any],
    federation: Federation,
    exchange: Exchange,
    kind: Kind,
    rng: Streams,
    privacy: PrivacyOptions,
    note: Note,
) -> Carriage:
    """The carriage of one exchange; where nothing is pooled there is nothing to protect."""
    if privacy.filter == "none" or not pooled(kind):
        return Carriage(federation, exchange, kind, rng)
    if privacy.filter == "sum_only":
        return SecureSum(federation, exchange, kind, rng, threshold=privacy.threshold, note=note)
    plan = noise_plan(privacy, method.budget, method.kinds(federation.facts))
    return NoisyTotals(federation, exchange, kind, rng, plan=plan)
