"""Whether a run can go on from a checkpoint: asked before its journals are cut back to it.

A checksum finds damage, not what was wrong when it was written, and a folder may be somebody
else's. So everything the run is going to use is looked at and tried here: numbers, memories, the
journals, the model, and the next exchange that the method plans.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from feddiv.core.arrays import StateDict, Weights
from feddiv.core.errors import in_one_line
from feddiv.core.files import Unreadable
from feddiv.core.import_path import is_import_path
from feddiv.core.randomness import Streams
from feddiv.core.trees import NotATree, dismantle
from feddiv.defence.directions import Directions
from feddiv.federation.accounts import SIZES, SUM, UPLOADS, Accounts
from feddiv.federation.client_memory import ARENA, MemoryRecords, ModelFiles, saved_records
from feddiv.methods.contract import Facts, Method, Moment, Reply, declared_kind
from feddiv.privacy.noise import NoiseMemory, Told
from feddiv.runs.checkpoint import FOLDER, NETS, Checkpoint
from feddiv.runs.journal import Seen, round_line
from feddiv.runs.loop import Cut, turns_of
from feddiv.runs.prepare import Prepared
from feddiv.runs.replies import Tally
from feddiv.runs.run_folder import JOURNALS, journal_lines
from feddiv.runs.standardise import Standard

COUNTED = (SIZES, UPLOADS)  # accounts of whole numbers, one for each client
TRIED = 8  # samples that the model is tried on


def check_content(checkpoint: Checkpoint, prepared: Prepared, path: Path) -> None:
    """Refuse (Unreadable, NotATree) what the run in this folder could not go on from."""
    nets = path / FOLDER / NETS
    try:
        _check_numbers(checkpoint)
        _check_journals(checkpoint, path)
        _check_memories(checkpoint, prepared, nets)
        _check_accounts(checkpoint.cut.accounts, prepared)
        _check_directions(checkpoint.cut.directions, prepared)
        _check_standard(checkpoint.cut.standard, prepared)
        _check_state(checkpoint.cut, prepared, nets)
    except (Unreadable, NotATree):
        raise
    except Exception as error:  # a method's own code, with a state that may be anything
        raise Unreadable(f"cannot be gone on from ({in_one_line(error)[:200]})") from None


def _check_numbers(checkpoint: Checkpoint) -> None:
    cut, standing = checkpoint.cut, checkpoint.standing
    _count(cut.turn, "turn", least=1)
    _count(cut.attempt, "attempt")
    _seconds(cut.seconds, "spent")
    _seconds(standing.seconds, "seconds")
    if not isinstance(cut.barred, dict):
        raise Unreadable("says nothing that can be read of clients that are not asked")
    for number in (*cut.barred.keys(), *cut.barred.values()):
        _count(number, "clients that are not asked")
    for norm in cut.norms:
        if not isinstance(norm, int | float) or not math.isfinite(norm) or norm < 0:
            raise Unreadable(f"says {str(norm)[:40]!r} for a norm, which is none")
    if not isinstance(standing.journals, dict) or not standing.journals.keys() <= set(JOURNALS):
        raise Unreadable("names journals that there are not")
    for size in standing.journals.values():
        _count(size, "a journal's length")
    for tally in cut.tallies:
        _check_tally(tally)
    round_line([seen for tally in cut.tallies for seen in tally.visits])  # once the turn is over


def _check_directions(directions: object, prepared: Prepared) -> None:
    """Cosines [S, S] of S clients that there are, each named once."""
    if not isinstance(directions, Directions):
        raise Unreadable("has directions of updates that are none")
    clients, cosines = directions.clients, directions.cosines
    if not isinstance(clients, np.ndarray) or not isinstance(cosines, np.ndarray):
        raise Unreadable("has directions of updates that are none")
    facts = _facts(prepared)
    for client in clients.tolist():
        _count(client, "clients that were compared")
        if facts is not None and client not in facts.sizes:
            raise Unreadable(f"has directions of updates of client {client}, and there is none")
    if cosines.dtype != np.float64:
        raise Unreadable("has directions of updates that are none")
    if len(set(clients.tolist())) != len(clients) or cosines.shape != (len(clients),) * 2:
        raise Unreadable("has directions of updates of other clients than it names")
    if (np.abs(cosines[~np.isnan(cosines)]) > 1 + 1e-6).any():
        raise Unreadable("has directions of updates with a cosine above 1")


def _check_tally(tally: Tally) -> None:
    if not isinstance(tally, Tally) or not isinstance(tally.visits, tuple):
        raise Unreadable("has a tally of an exchange that is none")
    for number in (*tally.missing, tally.bytes_up, tally.bytes_down):
        _count(number, "tallies")
    for seen in tally.visits:
        if not isinstance(seen, Seen) or not isinstance(seen.diary, dict):
            raise Unreadable("has a visit in its tallies that is none")
        if not isinstance(seen.reply, Reply) or not isinstance(seen.reply.metrics, dict):
            raise Unreadable("has a reply in its tallies that is none")
        _count(seen.reply.client, "client")


def _count(number: object, what: str, least: int = 0) -> None:
    if type(number) is not int or not least <= number < 1 << 62:
        raise Unreadable(f"says {str(number)[:40]!r} for {what}, which is no count")


def _counts(numbers: torch.Tensor) -> bool:
    """Whether whole numbers of a model are far enough from the largest to be counted on."""
    return bool(((numbers.long() > -1 << 62) & (numbers.long() < 1 << 62)).all())


def _seconds(number: object, what: str) -> None:
    if not isinstance(number, int | float) or not math.isfinite(number) or number < 0:
        raise Unreadable(f"says {str(number)[:40]!r} for {what}, which is no time")


def _check_journals(checkpoint: Checkpoint, path: Path) -> None:
    """They have to be as long as the checkpoint says, and whole lines up to there."""
    journals = checkpoint.standing.journals
    for name, size in journals.items():
        file = path / name
        lines = journal_lines(file, size)
        if name == "rounds.jsonl" and len(lines) != checkpoint.cut.turn - 1:
            raise Unreadable(
                f"is in turn {checkpoint.cut.turn}, but {file} has {len(lines)} rounds up to it"
            )
    if "rounds.jsonl" not in journals and checkpoint.cut.turn > 1:
        raise Unreadable("does not say how far rounds.jsonl reaches")


def _check_memories(checkpoint: Checkpoint, prepared: Prepared, nets: Path) -> None:
    """What simulated clients remember; that of sites is theirs."""
    if ARENA not in checkpoint.clients:
        if prepared.experiment.federation.name == "local":
            raise Unreadable("holds no memories of its clients")
        return
    records = MemoryRecords(prepared.workspace.method.Memory, nets)
    for client, record in saved_records(checkpoint.clients).items():
        if client >= len(prepared.draw.parts):
            raise Unreadable(f"remembers client {client}, and there is none")
        records.read(record)
        _check_noise(records.noise(record), client)


def _check_noise(memory: object, client: int) -> None:
    told = memory.told if isinstance(memory, NoiseMemory) else None
    if not isinstance(told, dict) or not all(isinstance(each, Told) for each in told.values()):
        raise Unreadable(f"has noise of client {client} that is none")
    for each in told.values():
        _count(each.uploads, "uploads")
        for numbers in (each.total, each.said):
            if not isinstance(numbers, np.ndarray) or not np.isfinite(numbers).all():
                raise Unreadable(f"has noise of client {client} that is none")


def _check_accounts(accounts: object, prepared: Prepared) -> None:
    """Rows [K, size] of finite numbers, as long as the entries that they are of."""
    if accounts is None:  # of a run that was begun without
        return
    if not isinstance(accounts, Accounts) or not isinstance(accounts.totals, dict):
        raise Unreadable("has accounts of its clients that are none")
    sizes = _sizes_of_rows(prepared)
    for name, rows in accounts.totals.items():
        if not isinstance(rows, np.ndarray) or rows.dtype != np.float64 or rows.ndim != 2:
            raise Unreadable(f"has accounts of {str(name)[:40]!r} that are none")
        if not np.isfinite(rows).all():
            raise Unreadable(f"has accounts of {str(name)[:40]!r} that are not finite")
        if sizes is not None and sizes.get(name, 0) not in (None, rows.shape[1]):
            raise Unreadable(f"has accounts of {str(name)[:40]!r} with rows of another length")
        if str(name).startswith(COUNTED) and (rows < 0).any():
            raise Unreadable(f"has accounts of {str(name)[:40]!r} below zero")
    if prepared.experiment.privacy.filter == "none":
        _check_totals(accounts, prepared)


def _check_standard(standard: object, prepared: Prepared) -> None:
    """What features are standardised by has to be there if clients agreed on it, and only then."""
    agreed = prepared.experiment.data.standardise == "clients"
    if standard is None and not agreed:
        return
    if not agreed or not isinstance(standard, Standard):
        raise Unreadable("says nothing that can be read of how features are standardised")
    if not standard.scaling.fits(prepared.dataset.input_shape):
        raise Unreadable("has numbers to standardise features by that are none")
    for number in (standard.bytes_up, standard.bytes_down):
        _count(number, "bytes of sums")


def _check_totals(accounts: Accounts, prepared: Prepared) -> None:
    """Every client's total has to be one that it can have: its next change is added to it."""
    facts = _facts(prepared)
    if facts is None:
        return
    for kind in prepared.workspace.method.kinds(facts).values():
        for name, entry in kind.reply.items():
            if entry.pooled != "change" or entry.impossible is None or None in entry.shape:
                continue
            for client in accounts.clients_in(name):
                shape = tuple(side for side in entry.shape if side is not None)
                total = accounts.total(name, client, shape)
                why = entry.impossible(total, facts.sizes.get(client, 0))
                if why:
                    raise Unreadable(f"has accounts of {name!r} that no client can have: {why}")


def _sizes_of_rows(prepared: Prepared) -> dict[str, int | None] | None:
    """How long the rows of each account are; None where only the sites, or the net, know."""
    facts = _facts(prepared)
    if facts is None:
        return None
    sizes: dict[str, int | None] = {}
    for kind in prepared.experiment.build_method().kinds(facts).values():
        for name, entry in kind.reply.items():
            if entry.pooled:
                known = [axis for axis in entry.shape if axis is not None]
                size = math.prod(known) if len(known) == len(entry.shape) else None
                sizes |= {name: size, SUM + name: size}
                sizes |= {row + name: 1 for row in COUNTED}
    return sizes


def _check_state(cut: Cut, prepared: Prepared, nets: Path) -> None:
    seed = Streams(prepared.experiment.seed)
    method = prepared.experiment.build_method()
    method.model_store = ModelFiles(nets)
    net = prepared.workspace.plain_net().eval()
    like = {key: value.clone() for key, value in net.state_dict().items()}
    weights = method.weights(cut.state)
    models = [*_models_in(cut.state, like).items(), *weights.items()]
    for name, state in models:
        _check_weights(name, state, like)
    _check_outputs(method, weights, models, net, prepared)
    facts = _facts(prepared)
    if facts is not None:
        first = method.begin(lambda name: like, facts, seed.at(round=0))
        check_like(first, cut.state, exact=not is_import_path(method.options.name))
        _check_plan(method, cut, facts, seed)
    method.assessment(cut.state)
    method.records(cut.state)
    for name in method.kept(cut.state):
        method.model_store.get(name)


def _models_in(state: object, like: StateDict) -> Weights:
    """All models of this net's kind that a state holds, by where in it they are."""
    found: Weights = {}
    for path, tensor in dismantle(state)[1].items():
        place, _, entry = path.rpartition("/")
        if entry in like:
            found.setdefault(place, {})[entry] = tensor
    return {place: model for place, model in found.items() if model.keys() == like.keys()}


def _check_weights(name: str, state: StateDict, like: StateDict) -> None:
    if not isinstance(state, dict) or state.keys() != like.keys():
        raise Unreadable(f"has a model {name!r} of another net")
    for key, tensor in like.items():
        found = state[key]
        if found.shape != tensor.shape or found.dtype != tensor.dtype:
            raise Unreadable(
                f"has a model {name!r} of another net: {key} is {found.dtype} {list(found.shape)}, "
                f"not {tensor.dtype} {list(tensor.shape)}"
            )
        if not found.isfinite().all():
            raise Unreadable(f"has a model {name!r} whose {key} is not finite")
        if not found.is_floating_point() and not _counts(found):
            raise Unreadable(f"has a model {name!r} whose {key} is no count")


@torch.no_grad()
def _check_outputs(
    method: Method[Any, Any],
    weights: Weights,
    models: list[tuple[str, StateDict]],
    net: nn.Module,
    prepared: Prepared,
) -> None:
    """All models have to give finite numbers; one with a running variance below zero does not."""
    workspace, dataset = prepared.workspace, prepared.dataset
    split = dataset.test if len(dataset.test) else dataset.train
    samples = torch.zeros(2, *dataset.input_shape)
    if len(split):
        samples = workspace.transform.plain(split.rows(slice(TRIED)).cpu())
    for name, state in models:
        net.load_state_dict(state)
        if not net(samples).isfinite().all():
            raise Unreadable(f"has a model {name!r} whose outputs are not finite")
    nets: dict[str, nn.Module] = {}
    for name, state in weights.items():
        nets[name] = workspace.plain_net().eval()
        nets[name].load_state_dict(state)
    if not method.predict(nets, samples).isfinite().all():
        raise Unreadable("has a model whose outputs are not finite")


def _facts(prepared: Prepared) -> Facts | None:
    """What the server knows at the beginning; None where only the sites know it."""
    dataset, draw = prepared.dataset, prepared.draw
    sizes = {client: len(part) for client, part in enumerate(draw.parts)}
    if not sizes or prepared.experiment.federation.name == "flower":
        return None
    return Facts(dataset.classes, dataset.input_shape, sizes, draw.iid)


def check_like(like: object, state: object, *, exact: bool) -> None:
    """Refuse a state whose arrays are not those of a first state: types, axes, if `exact` shapes.

    A method of somebody's own may have arrays that grow, and NaN where it likes.
    """
    if type(state) is not type(like):
        raise Unreadable(f"has a {type(state).__name__} for its state")
    first, found = dismantle(like)[1], dismantle(state)[1]
    for key, numbers in found.items():  # a first state marks with NaN what nobody has said yet
        marked = key in first and (not first[key].numel() or first[key].isnan().any())
        if exact and numbers.isnan().any() and not marked:
            raise Unreadable(f"has a state whose {key} is not a number")
    for key in first.keys() & found.keys():
        ours, theirs = first[key], found[key]
        same = ours.shape == theirs.shape if exact else ours.dim() == theirs.dim()
        if ours.dtype != theirs.dtype or not same:
            raise Unreadable(
                f"has {theirs.dtype} {list(theirs.shape)} for {key}, not {ours.dtype} "
                f"{list(ours.shape)}"
            )


def _check_plan(method: Method[Any, Any], cut: Cut, facts: Facts, seed: Streams) -> None:
    """The next exchange has to be one that the method can plan, with clients that there are."""
    turns = list(turns_of(method))
    if cut.turn > len(turns):
        return  # it is over
    turn = turns[cut.turn - 1]
    moment = Moment(turn.moment.stage, turn.moment.turn, len(cut.tallies))
    rng = seed.at(round=turn.number, exchange=moment.exchange)
    exchange = method.plan(cut.state, moment, rng)
    if exchange is None:
        return
    declared_kind(method, facts, exchange)
    if unknown := set(exchange.clients) - facts.sizes.keys():
        raise Unreadable(f"asks client {min(unknown)}, and there is none")
