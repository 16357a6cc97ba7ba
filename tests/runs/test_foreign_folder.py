"""Run folders that somebody else made: nothing outside them changes, nothing of theirs is run."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import feddiv
from feddiv.core.errors import UserError
from feddiv.core.files import Unreadable, load_tensors, save_tensors
from feddiv.privacy.noise import NoiseMemory, Told
from feddiv.runs.checkpoint import HEADER, _checksum
from feddiv.runs.checkpoint_check import _check_noise
from feddiv.runs.start_and_resume import Watcher

TINY: dict[str, Any] = {
    "rounds": 4,
    "warmup.iterations": 1,
    "data.images": 120,
    "train.epochs": 1,
    "clients.count": 4,
    "checkpoint.seconds": 0.0,
    "against": [],
}


class Enough(Exception):
    """Stops a run as a bug would."""


class Stop(Watcher):
    def __init__(self, rounds: int = 99) -> None:
        self.left, self.refusals = rounds, []

    def round(self, line: dict[str, Any]) -> None:
        self.left -= 1
        if self.left == 0:
            raise Enough

    def refused(self, reason: str) -> None:
        self.refusals.append(reason)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.raises(Enough):
        feddiv.run("quickstart", TINY, out=folder, watcher=Stop(2), workers=0)
    return folder


@pytest.fixture(scope="module")
def whole(stopped: Path, tmp_path_factory: pytest.TempPathFactory) -> feddiv.Run:
    folder = tmp_path_factory.mktemp("whole") / "run"
    shutil.copytree(stopped, folder)
    return feddiv.resume(folder, workers=0)


@pytest.fixture
def folder(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "run"))


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def refused(folder: Path, said: str) -> None:
    """One line, and every byte as it was."""
    before = contents(folder)
    with pytest.raises(UserError, match=said) as caught:
        feddiv.resume(folder, workers=0)
    assert "\n" not in str(caught.value)
    assert contents(folder) == before


# Links


@pytest.mark.parametrize(
    "name",
    [
        "rounds.jsonl",
        "clients.jsonl",
        "config.toml.part",
        "environment.json",
        "environment.json.part",
        "best.safetensors.part",
        "model.safetensors",
        "summary.json.part",
        "picture.png",
        "checkpoint/000009-000000.safetensors",
        "checkpoint/000009-000000.safetensors.part",
        "checkpoint/nets/kept.safetensors",
        "against/fedavg/rounds.jsonl",
        "sites/0/runs/abc/memory/000001",
        "against/fedavg/sites/0/secret",
    ],
)
def test_a_link_is_refused_before_anything_is_written(
    folder: Path, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "precious.txt"
    outside.write_text("precious")
    link = folder / name
    if link.exists():
        outside.write_bytes(link.read_bytes())  # what it leads to may look right
        link.unlink()
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    was = outside.read_bytes()
    refused(folder, f"{name}: is a link")
    assert outside.read_bytes() == was


@pytest.mark.parametrize(
    "name", ["checkpoint", "checkpoint/nets", "against", "against/fedavg", "sites", "sites/0/runs"]
)
def test_a_linked_folder_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    outside, link = tmp_path / "elsewhere", folder / name
    if link.exists():
        shutil.move(link, outside)
    outside.mkdir(exist_ok=True)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    was = contents(outside)
    refused(folder, f"{name}: is a link")
    assert contents(outside) == was


def test_a_second_name_of_a_journal_and_a_pipe(folder: Path, tmp_path: Path) -> None:
    os.link(folder / "rounds.jsonl", tmp_path / "other name")
    refused(folder, r"rounds.jsonl: has a second name somewhere \(a hard link\)")
    (tmp_path / "other name").unlink()
    os.mkfifo(folder / "environment.json.part")
    refused(folder, r"environment.json.part: is a pipe or a device")


def test_the_folder_itself_may_be_a_link(folder: Path, whole: feddiv.Run, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    run = feddiv.resume(tmp_path / "link", workers=0)
    assert run.summary["model_hash"] == whole.summary["model_hash"]


def test_a_new_run_follows_no_link_either(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    for name in ("rounds.jsonl", "checkpoint", "draw.npz.part"):
        out = tmp_path / name.replace(".", "-")
        out.mkdir()
        (out / name).symlink_to(outside)
        with pytest.raises(UserError, match=r"is a link|already holds a run"):
            feddiv.run("quickstart", TINY, out=out, workers=0)
        assert not outside.exists()
        assert [file.name for file in out.iterdir()] == [name]


# Checkpoints with a right checksum and a wrong content

Change = Callable[[dict[str, Any], dict[str, torch.Tensor]], object]


def forge(file: Path, change: Change) -> None:
    """Change what a checkpoint says, and give it the checksum of that."""
    tensors, header = load_tensors(file)
    content = json.loads(header[HEADER])
    change(content, tensors)
    text = json.dumps(content)
    save_tensors(file, tensors, {HEADER: text, "checksum": _checksum(text, tensors)})


def newest(folder: Path) -> Path:
    return max((folder / "checkpoint").glob("*.safetensors"))


def first_weights(tensors: dict[str, torch.Tensor]) -> str:
    return next(
        key for key, value in tensors.items() if key.startswith("server/") and value.dim() == 4
    )


def poke(value: float) -> Change:
    def change(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        tensors[first_weights(tensors)].view(-1)[0] = value

    return change


def variance(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    for key, value in tensors.items():
        if key.endswith("running_var"):
            value.fill_(-1)


def batches_seen(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    for key, value in tensors.items():
        if key.endswith("num_batches_tracked"):
            value.fill_(2**63 - 1)


def reshape(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    key = first_weights(tensors)
    tensors[key] = tensors[key].flatten()


def retype(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    key = first_weights(tensors)
    tensors[key] = tensors[key].double()


def other_totals(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    """What the server has of the filter, with another length."""
    for key, value in tensors.items():
        if key.startswith("server/") and value.dtype == torch.float64 and value.dim() == 1:
            tensors[key] = torch.zeros(len(value) + 1, dtype=torch.float64)


def no_filter(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    for key, value in tensors.items():
        if key.startswith("server/") and value.dtype == torch.float64:
            value.fill_(float("nan"))


def directed(clients: list[int], cosines: list[list[float]]) -> Change:
    def change(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        tensors["directions/clients"] = torch.tensor(clients)
        tensors["directions/cosines"] = torch.tensor(cosines, dtype=torch.float64)

    return change


def break_memories(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    tensors["clients/arena"][8:40] = 7


def lost_memories(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    tensors["clients/places"][:, 0] += 1 << 40


def account(change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """What clients have said in all, otherwise."""

    def changed(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        found = [key for key in tensors if key.startswith("accounts/")]
        assert found
        for key in found:
            tensors[key] = change(tensors[key]).contiguous()

    return changed


def say(**values: Any) -> Change:
    return lambda content, tensors: content.update(values)


def drop(key: str) -> Change:
    return lambda content, tensors: content.pop(key)


def journals(**sizes: Any) -> Change:
    def change(content: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        items = [[f"{name}.jsonl", size] for name, size in sizes.items()]
        content["standing"]["fields"]["journals"] = {"items": items}

    return change


FORGED: dict[str, tuple[Change, str]] = {
    "turn is a text": (say(turn="3"), "says '3' for turn, which is no count"),
    "turn is another": (say(turn=40), "is in turn 40, but .*rounds.jsonl has"),
    "turn is negative": (say(turn=-1), "for turn, which is no count"),
    "no time": (say(spent="long"), "says 'long' for spent, which is no time"),
    "not a time": (say(spent=float("nan")), "for spent, which is no time"),
    "attempt": (say(attempt=1.5), "for attempt, which is no count"),
    "no tallies": (say(tallies=3), "lacks what a checkpoint says|cannot be gone on from"),
    "tallies of something else": (
        say(tallies={"tuple": [{"tuple": [1]}]}),
        "has a tally of an exchange that is none",
    ),
    "no turn": (drop("turn"), "lacks what a checkpoint says .*turn"),
    "no state": (say(state={"fields": {}}), "no FedDiv.*State"),
    "a number as state": (say(state=3), "cannot be gone on from|for its state"),
    "nested without end": (say(state={"list": []}), "for its state|cannot be gone on from"),
    "no standing": (say(standing=None), "lacks what a checkpoint says|cannot be gone on from"),
    "other journals": (journals(**{"../evil": 0}), "names journals that there are not"),
    "half a line": (journals(rounds=10, clients=10), "no line ends at byte 10"),
    "more than there is": (journals(rounds=1 << 40), "is shorter than the checkpoint says"),
    "a length that is none": (journals(rounds=-5), "for a journal's length, which is no count"),
    "files elsewhere": (say(files=["../../secret"]), "'../../secret', which is no name of a model"),
    "files by number": (say(files=[3]), "'int', which is no name of a model"),
    "no list of files": (say(files=7), "lacks what a checkpoint says"),
    "memories that are none": (break_memories, "not a record"),
    "memories elsewhere": (lost_memories, "has the memory of client 0 where there is none"),
    "accounts that are none": (say(accounts=5), "has accounts of its clients that are none"),
    "accounts of nothing": (
        say(accounts={"fields": {"totals": {"items": [["histogram", 3]]}}}),
        "has accounts of 'histogram' that are none",
    ),
    "flat accounts": (account(torch.flatten), "has accounts of '.*' that are none"),
    "other accounts": (account(lambda rows: rows[:, 1:]), "with rows of another length"),
    "accounts without end": (account(lambda rows: rows / 0), "that are not finite"),
    "norms that are none": (say(norms=["1"]), "says '1' for a norm"),
    "a norm below zero": (say(norms=[1.0, -1.0]), "says '-1.0' for a norm"),
    "barred by number": (say(barred=3), "of clients that are not asked"),
    "barred for good": (
        say(barred={"items": [[1, "long"]]}),
        "says 'long' for clients that are not asked",
    ),
    "directions that are none": (say(directions=5), "has directions of updates that are none"),
    "directions of nobody": (
        directed([0, 99], [[1.0, 0.1], [0.1, 1.0]]),
        "of updates of client 99, and there is none",
    ),
    "directions of one twice": (
        directed([0, 0], [[1.0, 0.1], [0.1, 1.0]]),
        "of other clients than it names",
    ),
    "directions of others": (directed([0, 1], [[1.0]]), "of other clients than it names"),
    "more than the same direction": (
        directed([0, 1], [[1.0, 1.5], [1.5, 1.0]]),
        "with a cosine above 1",
    ),
    "a filter that is no number": (no_filter, "has a state whose .* is not a number"),
    "another shape": (reshape, "has a model 'net' of another net"),
    "another type": (retype, "has a model 'net' of another net"),
    "another filter": (other_totals, "for .*, not torch.float64"),
    "a weight that is not finite": (poke(float("nan")), "has a model 'net' whose .* is not finite"),
    "weights too large": (poke(3.4e38), "has a model 'net' whose outputs are not finite"),
    "a count that cannot go on": (
        batches_seen,
        "has a model 'net' whose blocks.0.1.num_batches_tracked is no count",
    ),
    "a variance below zero": (variance, "has a model 'net' whose outputs are not finite"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORGED)
def test_a_forged_checkpoint_is_refused_and_nothing_is_cut(folder: Path, name: str) -> None:
    change, said = FORGED[name]
    for file in (folder / "checkpoint").glob("*.safetensors"):
        forge(file, change)
    with (folder / "rounds.jsonl").open("a") as file:
        file.write('{"after": "the checkpoint"}\n')
    refused(folder, f"no checkpoint can be used: .*({said})")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["turn is a text", "a weight that is not finite"])
def test_the_one_before_a_forged_checkpoint_is_used(
    folder: Path, whole: feddiv.Run, name: str
) -> None:
    last = newest(folder)
    forge(last, FORGED[name][0])
    watcher = Stop()
    run = feddiv.resume(folder, workers=0, watcher=watcher)
    assert run.summary["model_hash"] == whole.summary["model_hash"]
    (reason,) = watcher.refusals
    assert reason.startswith(str(last))


@pytest.mark.parametrize(
    "told",
    [
        3,
        {"histogram": 3},
        {"histogram": Told(np.zeros(2), np.array([0.0, np.nan]))},
        {"histogram": Told(np.zeros(2), 3)},  # type: ignore[arg-type]
        {"histogram": Told(np.zeros(2), np.zeros(2), -1)},
    ],
)
def test_a_memory_of_noise_that_is_none(told: Any) -> None:
    with pytest.raises(Unreadable, match=r"noise of client 0 that is none|for uploads"):
        _check_noise(NoiseMemory(told), 0)
    _check_noise(NoiseMemory({"histogram": Told(np.zeros(2), np.ones(2), 1)}), 0)


# The other files of a folder

DEEP = "[" * 100_000


def deep_line(text: str) -> str:
    return text + '{"a":' * 100_000 + "\n"


@pytest.mark.parametrize("text", ["", "[]", "3", DEEP, '{"a":' * 100_000, "\0\x01", '{"x": 1}'])
def test_a_summary_that_is_none(whole: feddiv.Run, tmp_path: Path, text: str) -> None:
    folder = Path(shutil.copytree(whole.folder, tmp_path / "run"))
    (folder / "summary.json").write_text(text)
    if text == '{"x": 1}':  # not of so many rounds: it goes on
        text = json.dumps({"rounds": 4})
        (folder / "summary.json").write_text(text)
    refused(folder, r"summary\.json: is damaged")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seconds", None),
        ("seconds", 1e400),
        ("dataset", 3),
        ("model_hash", []),
        ("filter", 3),
        ("filter", {"f1": "good"}),
        ("flagged", "all"),
        ("mean_last10_test_accuracy", [1]),
        pytest.param("best_test_accuracy", 10**400, id="too large a number"),
        ("wrong", {}),
    ],
)
def test_a_summary_of_other_types(
    whole: feddiv.Run, tmp_path: Path, key: str, value: object
) -> None:
    folder = Path(shutil.copytree(whole.folder, tmp_path / "run"))
    (folder / "summary.json").write_text(json.dumps(whole.summary | {key: value}))
    refused(folder, rf"summary\.json: is damaged \({key} ")


@pytest.mark.parametrize(
    "text", ["", "[1]\n", '{"round": 1', deep_line, "\xff\x00\n", '{"round": "one"}\n', "{}\n"]
)
def test_rounds_that_are_none(whole: feddiv.Run, tmp_path: Path, text: Any) -> None:
    folder = Path(shutil.copytree(whole.folder, tmp_path / "run"))
    lines = (folder / "rounds.jsonl").read_text()
    (folder / "rounds.jsonl").write_text(
        text(lines) if callable(text) else "" if not text else lines + text, encoding="latin1"
    )
    refused(folder, r"rounds\.jsonl: is damaged")


@pytest.mark.parametrize(
    ("key", "array"),
    [
        ("client", None),
        ("score", np.array([[1.0]])),
        ("score", np.array([np.nan])),
        ("given_label", np.array(["a"])),
    ],
)
def test_an_assessment_that_is_none(
    whole: feddiv.Run, tmp_path: Path, key: str, array: Any
) -> None:
    folder = Path(shutil.copytree(whole.folder, tmp_path / "run"))
    arrays = dict(np.load(folder / "assessment.npz"))
    if array is None:
        del arrays[key]
    else:
        arrays[key] = array
        arrays |= {k: v[:1] for k, v in arrays.items() if k != key}
    np.savez(folder / "assessment.npz", **arrays)
    refused(folder, r"assessment\.npz: is damaged")


@pytest.mark.slow
@pytest.mark.parametrize("text", ["[1]", DEEP, '{"resumed": 3}', "\0"])
def test_an_environment_that_is_none_is_begun_anew(folder: Path, text: str) -> None:
    (folder / "environment.json").write_text(text)
    feddiv.resume(folder, workers=0)
    assert len(json.loads((folder / "environment.json").read_text())["resumed"]) == 1


def test_a_draw_that_is_none(folder: Path) -> None:
    arrays = dict(np.load(folder / "draw.npz"))
    np.savez(folder / "draw.npz", **{**arrays, "recipe": np.array('{"a":' * 50_000)})
    refused(folder, r"draw .*draw\.npz: damaged")
