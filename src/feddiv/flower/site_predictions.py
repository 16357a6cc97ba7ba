"""What a site brings to an audit without training: its own classifier, or what that has said.

The run has no model then (`model.name=predictions`). Logits are made, or read, at the site's first
message and kept beside its memory of the run: a classifier makes one pass, however many messages
there are.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from feddiv.audits.own_samples import samples_for
from feddiv.audits.probability_file import ProbabilityFile, checked_probabilities, numbered_labels
from feddiv.audits.shared_filter import as_logits
from feddiv.config.experiment import Experiment
from feddiv.core.arrays import Array, Labels
from feddiv.core.errors import UserError, in_one_line
from feddiv.core.files import Unreadable, load_tensors, save_tensors
from feddiv.core.given_files import at_home
from feddiv.core.import_path import is_import_path
from feddiv.data import Dataset, Draw, client_samples
from feddiv.data.classes import UnknownClass, in_these_classes
from feddiv.data.draw.corrected import with_corrections
from feddiv.data.sample_names import NamesGiven
from feddiv.data.sources.own_files import list_own
from feddiv.data.sources.python import as_they_are
from feddiv.data.sources.sites import named_classes, predictions
from feddiv.flower.site_data import AppData, Held, NoData, OwnData, SiteData
from feddiv.learning.predict import predict_array
from feddiv.nets import ModelOptions
from feddiv.nets.build import build_net
from feddiv.runs.model import load_model

KEPT = "predictions.safetensors"


@dataclass(frozen=True)
class OwnClassifier:
    """`probabilities` is a file of predicted probabilities, with a row for each sample.

    `classifier` is a model of feddiv's (a run's folder, or its model.safetensors), or a torch net
    as "package.module:factory"; `net` makes that of somebody's own Flower app. `allow` are import
    paths that the header of a model may name, `encoder` says where the encoder of one is.
    """

    probabilities: str | None = None
    classifier: str | None = None
    net: Callable[[], nn.Module] | None = None
    allow: tuple[str, ...] = ()
    encoder: str | None = None

    def load(self, experiment: Experiment, client: int, holdings: SiteData, folder: Path) -> Held:
        """The site's predictions as the samples of this run; `folder` keeps those of a net."""
        classes = named_classes(experiment.data)
        if self.probabilities is not None and self.classifier is not None:
            raise UserError("node config: probabilities and classifier: give one of them")
        if self.probabilities is not None:
            shown, logits = self._from_file(at_home(self.probabilities), classes, holdings)
        elif self.classifier is not None or self.net is not None:
            shown, make = self._from_net(experiment, classes, holdings)
            logits = _once(folder / KEPT, shown, make)
        else:
            raise UserError(
                "model.name=predictions: this site has not said what its own classifier says; say "
                'so by probabilities="FILE" or classifier="FILE" in its node config'
            )
        place = max(client, 0)
        own = predictions(classes, torch.from_numpy(logits), shown.train.labels)
        draw = Draw.of_one(own, place)
        if isinstance(holdings, OwnData | AppData) and holdings.corrections is not None:
            draw = with_corrections(draw, shown, [holdings.corrections], setting="corrections")
        return Held(own, draw, place, shown=shown)

    def _from_file(
        self, path: Path, classes: tuple[str, ...], holdings: SiteData
    ) -> tuple[Dataset, Array]:
        file = ProbabilityFile.read(path, "probabilities")
        if isinstance(holdings, OwnData):
            where = f"data-path={holdings.path}"
            shown = list_own(holdings.path, classes, where)
            probabilities = file.of_samples(shown, in_order=not holdings.path.is_dir())
            return shown, as_logits(probabilities)
        if not isinstance(holdings, NoData):
            raise UserError(
                "node config: probabilities are for sites that have a data-path or none"
            )
        if file.labels is None:
            raise UserError(
                f"{file.where}: has no labels; name the data they belong to by data-path, or add "
                "an array `labels` (of a table, a column `label`)"
            )
        values = checked_probabilities(file.where, file.probabilities)
        names = file.classes or classes
        labels = numbered_labels(file.where, file.labels, names, len(values))
        shown = in_these_classes(_only_names(file, names, labels, len(values)), classes, file.where)
        return shown, as_logits(file.of_samples(shown, in_order=True))

    def _from_net(
        self, experiment: Experiment, classes: tuple[str, ...], holdings: SiteData
    ) -> tuple[Dataset, Callable[[], Array]]:
        """The samples, and how to predict them."""
        if self.classifier is None and isinstance(holdings, AppData) and self.net is not None:
            own = as_they_are(holdings.data(), classes, holdings.each, "data")
            return own, lambda: _predicted(self._built(own, "model="), own)
        if not isinstance(holdings, OwnData):
            raise UserError("node config: a classifier needs data-path, the samples it judges")
        assert self.classifier is not None
        if is_import_path(self.classifier):
            own = holdings.load(experiment, 0).dataset
            return own, lambda: _predicted(self._built(own, f"classifier={self.classifier}"), own)
        return self._from_model(Path(self.classifier), classes, holdings)

    def _from_model(
        self, path: Path, classes: tuple[str, ...], holdings: OwnData
    ) -> tuple[Dataset, Callable[[], Array]]:
        where = f"classifier={path}"
        model = load_model(at_home(path), self.allow, self.encoder)
        for name in model.classes:
            if name not in classes:
                raise UnknownClass(name, classes, where)
        if lacking := [name for name in classes if name not in model.classes]:
            raise UserError(f"{where}: does not know class {lacking[0]!r} of the run")
        own = samples_for(model, holdings.path, f"data-path={holdings.path}")
        columns = [model.classes.index(name) for name in classes]

        def predicted() -> Array:
            return model.logits(client_samples(own, Draw.of_one(own, 0), 0))[:, columns]

        return in_these_classes(own, classes, where), predicted

    def _built(self, own: Dataset, where: str) -> nn.Module:
        """A net of the site's own, found to give a logit for each class."""
        net = self.net
        build = None if net is None else lambda shape, classes: net()
        options = ModelOptions(name=self.classifier or "own")
        shape, classes = own.input_shape, len(own.classes)
        try:
            return build_net(options, shape, classes, build=build, trained=False)
        except UserError as problem:
            raise UserError(f"{where}: {problem}") from None


def _predicted(net: nn.Module, own: Dataset) -> Array:
    samples = client_samples(own, Draw.of_one(own, 0), 0)
    try:
        return predict_array(net, samples)
    except Exception as problem:  # it is somebody's own
        raise UserError(f"the site's own net fails: {in_one_line(problem)}") from problem


def _once(file: Path, shown: Dataset, make: Callable[[], Array]) -> Array:
    """The logits of a run, made at the first message, and again if the samples are others."""
    shape, samples = (len(shown.train), len(shown.classes)), _digest(shown)
    try:
        tensors, header = load_tensors(file)
        kept = np.asarray(tensors["logits"].numpy(), np.float64)
        if kept.shape == shape and header.get("samples") == samples:
            return kept
    except (Unreadable, KeyError):  # not there yet
        pass
    logits = make()
    if logits.shape != shape or not np.isfinite(logits).all():
        raise UserError(
            f"the site's own classifier gives outputs {logits.shape}, or some that are not finite; "
            f"{shape} numbers are needed"
        )
    file.parent.mkdir(parents=True, exist_ok=True)
    save_tensors(file, {"logits": torch.from_numpy(logits)}, {"samples": samples})
    return logits


def _digest(shown: Dataset) -> str:
    """sha256 (hex) of names and labels, in their order."""
    names = [shown.name_of(row) for row in range(len(shown.train))]
    labels = [shown.classes[label] for label in shown.train.labels.tolist()]
    return hashlib.sha256(json.dumps([names, labels]).encode()).hexdigest()


def _only_names(
    file: ProbabilityFile, classes: tuple[str, ...], labels: Labels, count: int
) -> Dataset:
    """Samples of which only the names and labels are here."""
    blank = predictions(classes, torch.empty((count, 0)), torch.from_numpy(labels))
    return replace(blank, names=NamesGiven(file.samples) if file.samples else None)
