"""`feddiv.audit`: which of the three ways to an audit is asked for."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from feddiv.audits.label_audit import LabelAudits
from feddiv.audits.own_samples import judged_by_run, judged_together
from feddiv.audits.probabilities import Predictions, audits_of_predictions
from feddiv.audits.runs import run_audits
from feddiv.config.reading import load_experiment
from feddiv.core.arrays import Array
from feddiv.core.errors import UserError
from feddiv.core.given_files import at_home
from feddiv.core.import_path import named_in
from feddiv.data.sources.python import brought
from feddiv.data.watcher import DataWatcher
from feddiv.learning.predict import CHUNK
from feddiv.runs.model import load_model

Paths = str | Path | Sequence[str | Path]


def audits(
    run: str | Path | None,
    *,
    data: Paths | None = None,
    model: Any | None = None,
    probabilities: Sequence[Any] | None = None,
    labels: Sequence[Any] | None = None,
    samples: Sequence[Any] | None = None,
    classes: Sequence[str] | None = None,
    clients: Any | None = None,
    test: Any | None = None,
    allow: Collection[str] = (),
    watcher: DataWatcher | None = None,
) -> LabelAudits:
    """As `feddiv.audit` says it."""
    if sum(each is not None for each in (run, model, probabilities)) != 1:
        raise UserError("audit: give a run, a model, or probabilities: one of them")
    paths = [] if data is None else [at_home(each) for each in _listed(data)]
    if probabilities is not None:
        return _by_probabilities(probabilities, labels, classes)
    if isinstance(model, torch.nn.Module):
        if samples is None:
            raise UserError("audit: samples= is missing: for each site what the net eats")
        return _by_probabilities([_predicted(model, each) for each in samples], labels, classes)
    if model is not None:
        if not paths:
            raise UserError("--data is missing: for each site the samples that the model judges")
        return judged_together(load_model(at_home(model), allow), paths, watcher)
    assert run is not None
    folder = at_home(run)
    if paths:
        return judged_by_run(load_model(folder, allow), paths, watcher)
    config = folder / "config.toml"
    with named_in(config, allow):
        options = load_experiment(config).data if clients is not None else None
    own = brought(clients, test, classes, options)
    return run_audits(folder, watcher, own, allow)


def _listed(data: Paths) -> Sequence[str | Path]:
    return [data] if isinstance(data, str | Path) else data


def _by_probabilities(
    probabilities: Sequence[Any], labels: Sequence[Any] | None, classes: Sequence[str] | None
) -> LabelAudits:
    if labels is None or len(labels) != len(probabilities):
        count = 0 if labels is None else len(labels)
        raise UserError(
            f"audit: labels of {count} sites for {len(probabilities)} sites; give an array for "
            "each of them, also where there is one"
        )
    sites = [
        Predictions.of(f"site {number}", each, given, classes)
        for number, (each, given) in enumerate(zip(probabilities, labels, strict=True))
    ]
    return audits_of_predictions(sites)


@torch.no_grad()
def _predicted(net: torch.nn.Module, inputs: Any) -> Array:
    """Probabilities [n, C] of a net that gives logits."""
    training = net.training
    net.eval()
    try:
        chunks = torch.split(torch.as_tensor(np.asarray(inputs)), CHUNK)
        outputs = [net(chunk).double().softmax(dim=1) for chunk in chunks if len(chunk)]
    finally:
        net.train(training)
    if not outputs:
        raise UserError("audit: samples= has a site without samples")
    return np.asarray(torch.cat(outputs).cpu().numpy(), np.float64)
