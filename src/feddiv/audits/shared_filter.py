"""Audits without training: sites that have predictions already exchange the filter alone.

Two exchanges, as before FedDiv's first filtered round: what every site says is its summed
predictions (C numbers) and log-likelihoods (8), then the histogram of its scores (64). All of it is
only ever added up.
"""

from collections.abc import Sequence

import numpy as np

from feddiv.core.arrays import Array, Labels
from feddiv.methods.contract import Assessment, Payload
from feddiv.methods.feddiv.feddiv_options import AUDIT_DEVIATION
from feddiv.methods.feddiv.filter import FilterOptions, NoiseFilter
from feddiv.methods.feddiv.filter_client import ClientFilter, FilterMemory
from feddiv.methods.feddiv.filter_server import Ledger

OPTIONS = FilterOptions(least_deviation=AUDIT_DEVIATION)  # those of the variant `audit`
SMALLEST = 1e-12  # probability: a model that says never has not seen everything


def shared_opinions(sites: Sequence[tuple[Array, Labels]]) -> list[Assessment]:
    """What sites, each with logits [n, C] and given labels [n], find together about the labels."""
    if not sites:
        return []
    received = learnt_together(sites)
    return [judged(logits, labels, received) for logits, labels in sites]


def learnt_together(sites: Sequence[tuple[Array, Labels]]) -> Payload:
    """The filter: six numbers, the mean prediction and a temperature."""
    classes = sites[0][0].shape[1]
    ledger, received = Ledger.empty(len(sites), classes), Payload()
    memories = [FilterMemory() for _ in sites]
    for asked in (("softmax", "likelihood"), ("histogram",)):
        for site, (logits, labels) in enumerate(sites):
            if not len(labels):
                continue
            client = ClientFilter(OPTIONS, classes, memories[site], received)
            if "histogram" in asked:
                client.keep(client.scores(logits, labels))
            ledger.add(site, len(labels), client.upload(asked, logits=logits, labels=labels))
            memories[site] = client.memory
        received = {"bias": ledger.bias, "temperature": np.array(ledger.temperature)}
    mixture = ledger.fitted(NoiseFilter(OPTIONS, classes)).mixture
    return received if mixture is None else {**received, "mixture": mixture.packed()}


def judged(logits: Array, labels: Labels, received: Payload) -> Assessment:
    """One site's opinion of its labels, by a filter that it received."""
    client = ClientFilter(OPTIONS, logits.shape[1], FilterMemory(), received)
    return client.opinion(logits, labels)


def as_logits(probabilities: Array) -> Array:
    """Logits [n, C] of predicted probabilities."""
    return np.log(np.maximum(probabilities, SMALLEST))
