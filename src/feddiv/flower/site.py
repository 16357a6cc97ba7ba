"""A site: answers the server's messages with its own data; its memory and its audit stay here."""

import re
import sys
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from flwr.app import RecordDict
from torch import nn

from feddiv.audits.clients import client_audit, young
from feddiv.audits.folder import write_audit
from feddiv.config.experiment import Experiment, validated
from feddiv.config.sections import MOST_CLIENTS
from feddiv.core.errors import Diverged, UserError
from feddiv.core.files import write_bytes
from feddiv.core.import_path import is_import_path
from feddiv.core.randomness import Streams
from feddiv.core.terminal import LINE, shown
from feddiv.data.classes import UnknownClass
from feddiv.data.noise.own_noise import import_paths
from feddiv.encoders.registry import ENCODERS, OtherWeights, find_encoder
from feddiv.federation.client_memory import MemoryRecords
from feddiv.federation.private_visit import Protection
from feddiv.federation.reply_check import Refused
from feddiv.federation.visit import make_assessment, make_visit
from feddiv.federation.workspace import Workspace
from feddiv.flower.frozen_corrections import load_with_frozen
from feddiv.flower.grid_federation import ASSESS, HELLO
from feddiv.flower.records import (
    SOFTWARE,
    SiteTask,
    VisitAddress,
    problem_records,
    read_message,
    read_task,
    reply_records,
)
from feddiv.flower.site_data import Held, OwnData, SiteData
from feddiv.flower.site_ledger import SiteLedger
from feddiv.flower.site_limits import SiteLimits
from feddiv.flower.site_predictions import OwnClassifier
from feddiv.flower.site_privacy import Needed, SitePrivacy
from feddiv.methods.contract import Assessment, Message, Reply
from feddiv.methods.feature_sums import KIND as SUMS
from feddiv.presets import toml_tree

TOKEN = re.compile(r"[0-9a-f]{8,64}")
VERSION = re.compile(r"[0-9]{6}-[0-9]{4}-[0-9]{1,6}(?:-again|-introduction)?")
MEMORY = ".memory"
SUSPECT = 0.5  # p(clean) below which a label does not train


@dataclass(frozen=True)
class Site:
    """Where a site keeps what is its own, and how it comes by its data.

    `net` builds the net of somebody's own Flower app; otherwise the run's `model.name` says it.
    Code that the server names is run only if the site has allowed it: a net from a module if it is
    among `nets`, a method if it is among `methods`, noise, which a trial draws, if it is among
    `noises`. `encoder` is the site's own word for the run's encoder where that is no name of ours
    but a file or a module; its weights have to be those of the run. `limits` are what it does for a
    server at most, `privacy` is what a run has to have before the site takes part. `own` is what
    it brings to a run without a model.
    """

    folder: Path
    holdings: SiteData
    net: Callable[[], nn.Module] | None = None
    nets: tuple[str, ...] = ()
    noises: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    encoder: str | None = None
    limits: SiteLimits = field(default_factory=SiteLimits)
    privacy: Needed = field(default_factory=Needed)
    own: OwnClassifier = field(default_factory=OwnClassifier)

    def answer(self, records: RecordDict) -> RecordDict:
        """What the site says to a message; if it cannot do what is asked, why."""
        try:
            self.limits.check_message(records)
            task = read_task(records)
            return self._answered(task, read_message(records, task.kind))
        except (UserError, Refused, Diverged) as problem:
            reason = shown(" ".join(str(problem).split()), LINE)
            say(f"does not do what the server asks: {reason}")
            return problem_records(reason)
        except Exception as problem:
            for line in traceback.format_exc().splitlines():  # it may be about the site's data
                print(shown(line, LINE), file=sys.stderr)
            return problem_records(f"failed ({type(problem).__name__}): its log says why")

    def _answered(self, task: SiteTask, message: Message) -> RecordDict:
        if task.software != SOFTWARE:
            raise UserError(f"has feddiv {SOFTWARE}, the server {task.software}: install the same")
        experiment = self._experiment(task.experiment)
        address = task.address
        if not TOKEN.fullmatch(address.run):
            raise UserError(f"run {address.run!r} is no token of a run")
        torch.set_num_threads(1)
        self.limits.check_experiment(experiment)
        loaded = self._loaded(experiment, address)
        self._check_loaded(experiment, loaded)
        ledger, ceiling = SiteLedger(self.folder), self.privacy.largest_total_epsilon
        ledger.check_spent(address.run, experiment.privacy, ceiling)
        if task.kind == HELLO:
            place = self.holdings.place
            metrics = {} if place is None else {"place": float(place)}
            part, trusted = loaded.draw.parts[loaded.client], loaded.draw.trusted
            samples, home = len(part), Path(__file__).parent.parent
            sure = "" if trusted is None else f", {int(trusted[part].sum())} of them by experts"
            say(f"feddiv {SOFTWARE} from {home} takes part with {samples} samples{sure}")
            return reply_records(address, Reply(address.client, samples, metrics=metrics))
        if loaded.client != address.client:
            raise UserError(f"is client {loaded.client} and was asked as client {address.client}")
        net = None if experiment.brings_predictions else self.net
        workspace = Workspace.of(experiment, loaded.dataset, loaded.draw, net)
        _standardise(workspace, task)
        # By client too: nodes that share a folder by mistake must not share a memory.
        kept = self.folder / "runs" / address.run / str(loaded.client)
        memory = SiteMemory(kept, workspace.method.Memory)
        record = memory.read(task.start)
        if task.kind == ASSESS:
            opinion = make_assessment(workspace, memory.records, message, record, loaded.client)
            folders = (memory.folder, self.folder)  # the newest run's is the one to look at
            data = self.holdings.path if isinstance(self.holdings, OwnData) else None
            audit = _audited(folders, loaded, opinion, experiment, data)
            if experiment.privacy.filter != "none":  # counts tell how much of it is noise
                audit = replace(audit, metrics={})
            return reply_records(address, audit)
        rng = Streams(experiment.seed, address.round, address.exchange, loaded.client, address.part)
        ledger.agree(address.run, loaded.client, experiment)
        ledger.spend(address.run, experiment.privacy, ceiling)
        version = known(address.version)
        own = SitePrivacy(experiment, self.folder, memory.folder, address.run, version)
        if Protection(workspace, rng).binds(message):
            own.promise(message, task.start)
        visit = make_visit(workspace, memory.records, message, record, rng, own.own())
        if visit.memory:
            memory.write(address.version, visit.memory, task.start, task.keep)
        return reply_records(address, visit.reply)

    def _loaded(self, experiment: Experiment, address: VisitAddress) -> Held:
        """The site's data; what is wrong with them is told to the site alone."""
        client = address.client
        if client >= MOST_CLIENTS:
            raise UserError(f"client {client}: there are at most {MOST_CLIENTS:,}")
        try:
            folder = self.folder / "runs" / address.run

            def load(holdings: SiteData) -> Held:
                if experiment.brings_predictions:
                    return self.own.load(experiment, client, holdings, folder)
                return holdings.load(experiment, client)

            return load_with_frozen(self.holdings, folder, load)
        except UnknownClass as problem:
            say(str(problem))
            raise UserError(
                "has a class that is none of the run's: its log names it; the run's are "
                f"{', '.join(problem.classes)}"
            ) from None
        except OtherWeights as problem:  # it names the site's file
            say(str(problem))
            raise UserError("its encoder has other weights than the run's") from None
        except UserError as problem:
            say(str(problem))
            raise UserError("its data cannot be used: its log says why") from None

    def _check_loaded(self, experiment: Experiment, loaded: Held) -> None:
        samples = len(loaded.draw.parts[loaded.client])
        self.limits.check_samples(samples)
        self.privacy.check_delta(experiment.privacy, samples)
        if self.net is None:
            shape, classes = loaded.dataset.input_shape, len(loaded.dataset.classes)
            self.limits.check_net(experiment.model, shape, classes)

    def _experiment(self, text: str) -> Experiment:
        tree = toml_tree(text, "the server's config")
        for path in import_paths(tree.get("noise")):  # reading on would import it
            if path not in self.noises:
                raise UserError(
                    f"noise.name={path}: this site imports no noise from a module that it has not "
                    'allowed; allow it by allow-noise="package.module:Class" in its node config'
                )
        self._check_method(tree.get("method"))  # the same
        tree = self._with_own_encoder(tree)
        experiment = validated({**tree, "against": ()})  # a site runs one method
        self.privacy.check(experiment.privacy)
        name = experiment.model.name
        if self.net is None and is_import_path(name) and name not in self.nets:
            raise UserError(
                f"model.name={name}: this site builds no net from a module that it has not "
                'allowed; allow it by allow-net="package.module:factory" in its node config'
            )
        return experiment

    def _with_own_encoder(self, tree: dict[str, Any]) -> dict[str, Any]:
        """A file or module that the server names means nothing here: the site names its own."""
        data = tree.get("data")
        name = data.get("encoder") if isinstance(data, dict) else None
        if not isinstance(data, dict) or name is None or name in ENCODERS:
            return tree
        if self.encoder is None:
            raise UserError(
                f"data.encoder={name}: this site has not said where that encoder is; say so by "
                'encoder="FILE.onnx" (or package.module:factory) in its node config'
            )
        if "encoder_sha256" not in data:
            raise UserError(f"data.encoder={name}: the server does not say which weights it has")
        try:
            find_encoder(self.encoder)
        except UserError as problem:
            say(f"node config encoder: {problem}")
            raise UserError("its node config names no encoder: its log says more") from None
        return {**tree, "data": {**data, "encoder": self.encoder}}

    def _check_method(self, section: object) -> None:
        name = str(section.get("name")) if isinstance(section, dict) else ""
        if is_import_path(name) and name not in self.methods:
            raise UserError(
                f"method.name={name}: this site runs no method from a module that it has not "
                'allowed; allow it by allow-method="package.module:Class" in its node config'
            )


def _standardise(workspace: Workspace, task: SiteTask) -> None:
    """As the clients have agreed, where the run lets them; before that they are asked for sums."""
    scaling, agreed = task.scaling, workspace.tells_sums and task.kind != SUMS
    if scaling is None and not agreed:
        return
    if scaling is None or not agreed or not scaling.fits(workspace.dataset.input_shape):
        raise UserError("is not told what the run standardises features by, or something else")
    workspace.standardise(scaling)


def say(line: str) -> None:
    """A line in the log of the site's SuperNode; what the server wrote does nothing to it."""
    print(f"feddiv: {shown(line, LINE)}", flush=True)


class SiteMemory:
    """The versions of what a client remembers of one run, as files."""

    def __init__(self, folder: Path, kind: Any) -> None:
        self.folder = folder
        self.records = MemoryRecords(kind, folder / "nets")

    def read(self, version: str) -> bytes | None:
        """The record of a version; None for the first visit."""
        if not version:
            return None
        file = self._file(version)
        try:
            return file.read_bytes()
        except OSError as error:
            raise UserError(
                f"the memory that the server wants to start from is gone ({version}: "
                f"{error.strerror}); site-path must be the folder of this run"
            ) from None

    def write(self, version: str, record: bytes, start: str, keep: Collection[str]) -> None:
        """Add a version, and forget those before `start` that the server will not come back to.

        Later ones stay: this may be a visit that took so long that others came after it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        write_bytes(self._file(version), record)
        used = set()
        for file in self.folder.glob(f"*{MEMORY}"):
            if file.stem in keep or file.stem >= min(start, version):
                used.add(self.records.file_of(file.read_bytes()))
            else:
                file.unlink(missing_ok=True)
        nets = self.folder / "nets"
        for file in nets.iterdir() if nets.is_dir() else ():
            if file.name not in used:
                file.unlink(missing_ok=True)

    def _file(self, version: str) -> Path:
        return self.folder / f"{known(version)}{MEMORY}"


def known(version: str) -> str:
    """The name of a visit, if it is one: it becomes part of a file's name."""
    if not VERSION.fullmatch(version):
        raise UserError(f"version {version!r} is no version of a memory")
    return version


def _audited(
    folders: Collection[Path],
    loaded: Held,
    opinion: Assessment,
    experiment: Experiment,
    data: Path | None,
) -> Reply:
    """Write the label audit here; the reply holds counts only.

    They are of the labels that the client trains on. How many are truly wrong is counted in a trial
    only.
    """
    draw, client = loaded.draw, loaded.client
    here = None if loaded.trial else "this site"
    shown = loaded.shown or loaded.dataset
    method, early = experiment.method.name, young(experiment)
    audit = client_audit(shown, draw, client, opinion, method, early, site=here, data=data)
    for folder in folders:
        write_audit(folder, audit)
    metrics: dict[str, float] = {}
    part, quality = draw.parts[client], opinion.p_clean
    if quality is not None:
        flagged = quality < SUSPECT
        metrics["flagged"] = float(flagged.sum())
        if loaded.trial and draw.truth is not None:
            wrong = draw.given[part] != draw.truth[part]
            metrics |= {"wrong": float(wrong.sum()), "caught": float((wrong & flagged).sum())}
    return Reply(client, len(part), metrics=metrics)
