"""`report`, `load` and `audit`: what came of a run."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feddiv.core.given_files import at_home

if TYPE_CHECKING:
    from feddiv.audits.label_audit import LabelAudits
    from feddiv.data.sources.python import Clients, ClientSamples
    from feddiv.runs.model import TrainedModel
    from feddiv.runs.run import Run


def report(
    *runs: "str | Path | Run",
    out: str | Path | None = None,
    figures: str | Path | None = None,
) -> Path:
    """Make one HTML page of runs, by their folders, with those they were compared with.

    It needs nothing beside it and asks nothing of the network. Without `out`, the page of one run
    is `report.html` in its folder, that of several in this one. `figures` names a folder for the
    same figures as SVG and PDF. Gives the path of the page.
    """
    from feddiv.reports.report import save_report

    folders = [each if isinstance(each, str | Path) else each.folder for each in runs]
    return save_report(folders, out, figures)


def load(
    path: str | Path, *, allow: Collection[str] = (), encoder: str | None = None
) -> "TrainedModel":
    """The trained model of a run's folder (its last round), or of one .safetensors file.

    `allow` are import paths ("package.module:factory") of a net, a method or an encoder that the
    file may name, as for `resume`. `encoder` says where the encoder is now, if the model was
    trained on the features of one that is a file and has moved.
    """
    from feddiv.runs.model import load_model

    return load_model(at_home(path), allow, encoder)


def audit(
    run: "str | Path | Run | None" = None,
    *,
    data: "str | Path | Sequence[str | Path] | None" = None,
    model: "Any | None" = None,
    probabilities: "Sequence[Any] | None" = None,
    labels: "Sequence[Any] | None" = None,
    samples: "Sequence[Any] | None" = None,
    classes: "Sequence[str] | None" = None,
    clients: "Clients | None" = None,
    test: "ClientSamples | None" = None,
    allow: Collection[str] = (),
) -> "LabelAudits":
    """Which labels look wrong, for each site by itself; nothing is written.

    Of a `run` (its folder, or what `feddiv.run` gave): the labels of its clients. With `data`, one
    path or several: labels that were not in it, judged by the run's model and filter. Data that
    were brought along as `clients` have to be brought again.

    Without a run, sites that have a classifier already exchange the filter alone: `model` is a
    folder or file for `feddiv.load` with `data`, or any torch net with `samples`, for each site an
    array of what the net eats, and `labels`; or they give `probabilities`, for each site an array
    [n, C], and `labels` [n], class numbers or names from `classes`.

    What comes back has an entry for each site: its `table`, `is_label_issue`, `ranking` (the
    worst first) and `estimate` (share of wrong labels, from `low` to `high`). `audits.table` is all
    of it, as a data frame where pandas is installed.

    Examples:
        >>> import feddiv, numpy as np
        >>> sure, unsure = [0.98, 0.02], [0.02, 0.98]
        >>> site = np.array([sure] * 30 + [unsure] * 30)
        >>> given = np.array([0] * 27 + [1] * 33)  # three of them wrong
        >>> audits = feddiv.audit(probabilities=[site, site], labels=[given, given])
        >>> audits[0].is_label_issue.sum(), sorted(audits[0].ranking[:3].tolist())
        (np.int64(3), [27, 28, 29])
    """
    from feddiv.audits.verb import audits

    return audits(
        run if run is None or isinstance(run, str | Path) else run.folder,
        data=data,
        model=model,
        probabilities=probabilities,
        labels=labels,
        samples=samples,
        classes=classes,
        clients=clients,
        test=test,
        allow=allow,
    )
