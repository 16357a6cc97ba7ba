"""Labels that were in no run, judged with a trained model: by its run's filter, or by a new one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from feddiv.audits.clients import client_audit
from feddiv.audits.folder import site_name
from feddiv.audits.label_audit import LabelAudits
from feddiv.audits.shared_filter import shared_opinions
from feddiv.core.errors import UserError
from feddiv.data import Dataset, DataWatcher, Draw, client_samples
from feddiv.data.sources.own_files import load_own
from feddiv.runs.model import TrainedModel

# A method may well have an opinion of the labels that it was trained on.
NOT_OF_THESE = (
    "{method} has no opinion of labels that it was not trained on, so nothing says which of these "
    "are wrong: the list has only what its model predicts. `feddiv audit` of the run without "
    "--data has what it says of its own; `feddiv audit --model` lets these samples find a filter "
    "by themselves."
)


def judged_by_run(
    model: TrainedModel, paths: Sequence[Path], watcher: DataWatcher | None = None
) -> LabelAudits:
    """The samples at each path, scored by the model and the filter of the run it came from."""
    sites = []
    for path in paths:
        dataset = samples_for(model, path, f"--data {path}", watcher)
        draw = Draw.of_one(dataset, 0)
        opinion = model.assess(client_samples(dataset, draw, 0))
        sites.append(
            client_audit(
                dataset,
                draw,
                0,
                opinion,
                model.card.method["name"],
                site=_site(path),
                data=path,
                unjudged=NOT_OF_THESE,
            )
        )
    return LabelAudits(tuple(sites))


def judged_together(
    model: TrainedModel, paths: Sequence[Path], watcher: DataWatcher | None = None
) -> LabelAudits:
    """The samples at each path, a site each, which exchange nothing but a filter."""
    sets = [samples_for(model, path, f"--data {path}", watcher) for path in paths]
    draws = [Draw.of_one(dataset, 0) for dataset in sets]
    pairs = [
        (model.logits(client_samples(dataset, draw, 0)), draw.given)
        for dataset, draw in zip(sets, draws, strict=True)
    ]
    audits = (
        client_audit(dataset, draw, 0, opinion, "a filter", site=_site(path), data=path)
        for dataset, draw, path, opinion in zip(
            sets, draws, paths, shared_opinions(pairs), strict=True
        )
    )
    return LabelAudits(tuple(audits))


def _site(path: Path) -> str:
    """What to call the site whose data are there, also where the path is `.` or `..`."""
    return site_name(path.resolve().name)


def samples_for(
    model: TrainedModel, path: Path, where: str, watcher: DataWatcher | None = None
) -> Dataset:
    """All samples, seen as the model sees them; what was called true is not looked at."""
    card = model.card
    if not path.exists():
        raise UserError(f"{where}: there is no such file or folder")
    settled = {}
    if card.takes_images:
        height, _, channels = card.sample_shape
        settled = {"size": height, "channels": channels}
    own = load_own(path, card.classes, where, settled, card.encoder, watcher=watcher)
    if own.input_shape != card.input_shape:
        raise UserError(
            f"{where}: samples have the shape {own.input_shape}, those of the model "
            f"{card.input_shape}"
        )
    return replace(own, mean=card.mean, std=card.std, truth=None)
