"""Checkpoints: one file is one consistent cut of the server and all clients.

A file is written under another name, reaches the disk, and only then gets its own; the one before
it stays. It is safetensors with JSON in the header: nothing in it says which class to make. A
checksum over everything finds damage, and a fingerprint of the experiment and its draw finds
files that belong elsewhere.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from feddiv.core.errors import UserError, in_one_line
from feddiv.core.files import Unreadable, json_object, load_tensors, save_tensors, tensors_hash
from feddiv.core.trees import NotATree, Tensors, assemble, dismantle
from feddiv.defence.directions import Directions
from feddiv.federation.accounts import Accounts
from feddiv.federation.client_memory import CHECKSUM, plain_name
from feddiv.federation.federation import Federation
from feddiv.runs.loop import Cut
from feddiv.runs.replies import Tally
from feddiv.runs.standardise import Standard

HEADER = "feddiv-checkpoint"
VERSION = 2
KEPT = 2
ALSO = "also"  # further identities of the run: it was given more rounds since
FOLDER, NETS = "checkpoint", "nets"  # models kept of single clients are in checkpoint/nets


@dataclass(frozen=True)
class Standing:
    """What a run has besides its cut: how far its files reach, its time."""

    journals: dict[str, int]  # bytes of rounds.jsonl and clients.jsonl
    seconds: float


@dataclass(frozen=True)
class Checkpoint:
    """A cut that was read back, with the clients' memories as they were saved."""

    cut: Cut
    standing: Standing
    clients: Tensors
    file: Path


class Checkpoints:
    """The checkpoints of one run, in `DIR/checkpoint`; `identity` says which run it is."""

    def __init__(
        self,
        run: Path,
        identity: str,
        state: Any,
        kept: Callable[[Any], list[str]] = lambda state: [],
        check: Callable[[Checkpoint], None] = lambda checkpoint: None,
    ) -> None:
        """`check` refuses a checkpoint whose content the run could not go on with."""
        self.folder, self.identity, self.state, self.kept = run / FOLDER, identity, state, kept
        self.check = check
        self._files: dict[str, list[str]] = {}  # nets that each checkpoint refers to

    def write(self, cut: Cut, standing: Standing, federation: Federation) -> None:
        """Save a cut, then forget all but the last ones."""
        tree, tensors = dismantle(cut.state, "server")
        accounts, rows = dismantle(cut.accounts, "accounts")
        directions, cosines = dismantle(cut.directions, "directions")
        standard, numbers = dismantle(cut.standard, "standard")
        clients = {f"clients/{name}": tensor for name, tensor in federation.save().items()}
        tensors |= rows | cosines | numbers | clients
        files = sorted({*federation.files(), *self.kept(cut.state)})
        content = {
            "version": VERSION,
            "identity": self.identity,
            "state": tree,
            "turn": cut.turn,
            "tallies": dismantle(cut.tallies)[0],
            "spent": cut.seconds,
            "attempt": cut.attempt,
            "accounts": accounts,
            "norms": list(cut.norms),
            "barred": dismantle(cut.barred)[0],
            "directions": directions,
            "standard": standard,
            "standing": dismantle(standing)[0],
            "files": files,
        }
        self.folder.mkdir(exist_ok=True)
        name = f"{cut.turn:06d}-{len(cut.tallies):06d}.safetensors"
        self._save(name, content, tensors)
        self._files[name] = files
        self._tidy()

    def _save(self, name: str, content: Mapping[str, Any], tensors: Tensors) -> None:
        text = json.dumps(content)
        header = {HEADER: text, "checksum": _checksum(text, tensors)}
        save_tensors(self.folder / name, tensors, header)

    def also_of(self, identity: str) -> None:
        """Make those of this run valid for another identity as well: its own, with a new config."""
        for file in self.found():
            try:
                content, tensors = self._content(file)
            except Unreadable:
                continue
            self._save(file.name, {**content, ALSO: [*content.get(ALSO, ()), identity]}, tensors)

    def _tidy(self) -> None:
        files = self.found()
        for file in [*files[KEPT:], *self.folder.glob("*.part")]:
            file.unlink(missing_ok=True)
        needed: set[str] = set()
        for file in files[:KEPT]:
            if file.name not in self._files:
                return  # of an earlier session: what it refers to is not known here
            needed |= set(self._files[file.name])
        nets = self.folder / NETS
        for file in nets.iterdir() if nets.is_dir() else ():
            if file.name not in needed:
                file.unlink(missing_ok=True)

    def found(self) -> list[Path]:
        """The files there are, newest first."""
        return sorted(self.folder.glob("*.safetensors"), reverse=True)

    def latest(self, refused: Callable[[str], None]) -> Checkpoint | None:
        """The newest that is whole and of this run; None where there never was one.

        `refused` is told, in one line each, of those that can't be used.
        """
        reasons: dict[Path, str] = {}
        for file in self.found():
            try:
                checkpoint = self._read(file)
                self.check(checkpoint)
            except (Unreadable, NotATree) as reason:
                reasons[file] = f"{file}: {reason}"
                refused(reasons[file])
                continue
            for bad in reasons:  # out of the way: newer checkpoints than this one will come
                bad.replace(bad.with_name(bad.name + ".refused"))
            return checkpoint
        if reasons:
            raise UserError(f"no checkpoint can be used: {'; '.join(reasons.values())}")
        return None

    def _content(self, file: Path) -> tuple[dict[str, Any], Tensors]:
        """What a file says and holds, once it is found to be whole and of this run."""
        tensors, header = load_tensors(file)
        text = header.get(HEADER)
        if text is None:
            raise Unreadable("is no checkpoint of feddiv")
        if header.get("checksum") != _checksum(text, tensors):
            raise Unreadable("is damaged: its checksum is another")
        content = json_object(text)
        version, of = content.get("version"), [content.get("identity")]
        if version != VERSION:
            raise Unreadable(f"has version {str(version)[:20]}, this is {VERSION}")
        if isinstance(also := content.get(ALSO), list):
            of += also
        if self.identity not in of:
            raise Unreadable("belongs to another run: its config or draw differ from this one's")
        return content, tensors

    def _read(self, file: Path) -> Checkpoint:
        content, tensors = self._content(file)
        try:
            return self._assembled(file, content, tensors)
        except (KeyError, TypeError, AttributeError) as error:
            raise Unreadable(f"lacks what a checkpoint says ({in_one_line(error)[:200]})") from None

    def _assembled(self, file: Path, content: dict[str, Any], tensors: Tensors) -> Checkpoint:
        for name in content["files"]:
            _check_net(self.folder / NETS / plain_name(name))
        self._files[file.name] = content["files"]
        cut = Cut(
            assemble(self.state, content["state"], tensors),
            content["turn"],
            assemble(tuple[Tally, ...], content["tallies"], {}),
            content["spent"],
            content["attempt"],
            assemble(Accounts | None, content.get("accounts"), tensors),
            tuple(content.get("norms", ())),
            assemble(dict[int, int], content.get("barred", {"items": []}), {}),
            assemble(Directions, content["directions"], tensors)
            if "directions" in content
            else Directions(),
            assemble(Standard | None, content.get("standard"), tensors),
        )
        prefix = "clients/"
        clients = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        return Checkpoint(cut, assemble(Standing, content["standing"], {}), clients, file)


def _check_net(file: Path) -> None:
    """A net that a client keeps must be there, with the checksum that its name ends in."""
    if not file.is_file():
        raise Unreadable(f"refers to {NETS}/{file.name}, which is missing")
    if not file.stem.endswith(tensors_hash(load_tensors(file)[0])[:CHECKSUM]):
        raise Unreadable(f"refers to {NETS}/{file.name}, which is damaged")


def _checksum(text: str, tensors: Mapping[str, Tensor]) -> str:
    return hashlib.sha256((text + tensors_hash(tensors)).encode()).hexdigest()
