"""What experts decided about labels of a run flows back into the next one."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import feddiv
from feddiv.core.errors import Note, UserError
from feddiv.data import Draw
from feddiv.data.corrections import Decision, DecisionKind, append

SETTINGS = {
    "against": [],
    "rounds": 3,
    "data.images": 240,
    "data.test_images": 60,
    "clients.count": 3,
    "clients.fraction": 1.0,
    "warmup.iterations": 1,
    "train.epochs": 2,
    "seed": 3,
}
TIME = "2026-01-02T03:04:05Z"


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    return feddiv.run(
        "quickstart", SETTINGS, out=tmp_path_factory.mktemp("runs") / "before", workers=0
    )


def noisiest(draw):
    """The client with the most wrong labels."""
    before = draw.given if draw.uncorrected is None else draw.uncorrected
    return int(np.argmax([(before != draw.truth)[part].sum() for part in draw.parts]))


def decide(run, worst, cannot_tell=0):
    """An expert who knows the truth looks at the worst labels of each client."""
    draw = Draw.load(run.folder / "draw.npz")
    with (run.folder / "clients" / f"{noisiest(draw):04d}" / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = {str(number): row for row, number in enumerate(_numbers(run))}
    decisions = []
    for row in rows[:worst]:
        truth = str(draw.truth[names[row["sample"]]])
        given = row["given_label"]
        kind = DecisionKind.CONFIRM if truth == given else DecisionKind.CORRECT
        decisions.append(Decision(row["sample"], given, kind, truth, "ann", TIME))
    for row in rows[worst : worst + cannot_tell]:
        decisions.append(
            Decision(row["sample"], row["given_label"], DecisionKind.CANNOT_TELL, "", "ann", TIME)
        )
    return decisions


def _numbers(run):
    from feddiv.config.reading import load_experiment
    from feddiv.runs.prepare import drawn

    dataset, _ = drawn(load_experiment(run.folder / "config.toml"))
    return [int(dataset.name_of(row)) for row in range(len(dataset.train))]


@pytest.fixture(scope="module")
def file(before, tmp_path_factory):
    """Thirty labels of the noisiest client decided, and two that nobody can tell."""
    path = tmp_path_factory.mktemp("decided") / "corrections.csv"
    append(path, decide(before, 30, cannot_tell=2))
    return path


@pytest.fixture(scope="module")
def after(file, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "after"
    with pytest.warns(Note, match="corrected by experts: every method trusts them"):
        return feddiv.run(
            "quickstart", {**SETTINGS, "data.corrections": str(file)}, out=out, workers=0
        )


@pytest.mark.slow
def test_labels_are_corrected_and_trusted_and_the_summary_says_so(before, after):
    old, new = (Draw.load(run.folder / "draw.npz") for run in (before, after))
    assert old.trusted is None
    assert new.trusted.sum() == 30
    assert (new.uncorrected == old.given).all()
    assert (new.given[new.trusted] == new.truth[new.trusted]).all()
    assert (new.given[~new.trusted] == old.given[~new.trusted]).all()
    changed = int((new.given != old.given).sum())
    assert changed > 5
    assert all((one == other).all() for one, other in zip(old.parts, new.parts, strict=True))
    said = after.summary["corrections"]
    assert said["confirmed"] == 30 - changed
    assert said["corrected"] == changed
    assert said["wrong_before"] == pytest.approx(before.summary["wrong"])
    assert said["wrong_after"] == pytest.approx(said["wrong_before"] - changed / len(old.given))
    assert after.summary["wrong"] == pytest.approx(said["wrong_after"])
    assert "corrections" not in before.summary
    assert old.hash != new.hash


@pytest.mark.slow
def test_the_next_list_has_them_as_right(after):
    draw = Draw.load(after.folder / "draw.npz")
    client = noisiest(draw)
    mine = draw.trusted[draw.parts[client]]
    with (after.folder / "clients" / f"{client:04d}" / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    sure = [row for row in rows if float(row["label_quality"]) == 1.0]
    assert len(sure) >= mine.sum() == 30
    trusted = {str(number) for number in np.array(_numbers(after))[draw.trusted]}
    listed = [row for row in rows if row["sample"] in trusted]
    assert len(listed) == 30
    assert {(row["label_quality"], row["is_label_issue"], row["action"]) for row in listed} == {
        ("1.000000", "False", "keep")
    }
    audit = feddiv.audit(after.folder)[client]
    assert audit.trusted.sum() == 30
    assert not audit.is_label_issue[audit.trusted].any()


@pytest.mark.slow
def test_the_report_says_what_they_changed(after):
    page = Path(feddiv.report(after.folder)).read_text(encoding="utf-8")
    assert "labels and corrected" in page
    assert "of all labels were wrong before" in page


@pytest.mark.slow
def test_workers_and_a_resume_have_the_same_bits(file, after, tmp_path):
    settings = {**SETTINGS, "data.corrections": str(file)}
    with pytest.warns(Note):
        other = feddiv.run("quickstart", settings, out=tmp_path / "workers", workers=2)
    assert other.summary["model_hash"] == after.summary["model_hash"]

    begun = json.loads((tmp_path / "workers" / "summary.json").read_text())
    moved = tmp_path / "decided.csv"
    moved.write_bytes(file.read_bytes())
    settings = {**settings, "rounds": 2, "data.corrections": str(moved)}
    with pytest.warns(Note):
        feddiv.run("quickstart", settings, out=tmp_path / "short", workers=0)
    append(moved, [Decision("999999", "3", DecisionKind.SKIP, "", "ann", TIME)])
    with pytest.warns(Note, match="has changed since the run was begun") as notes:
        longer = feddiv.resume(tmp_path / "short", ["rounds=3"], workers=0)
    assert len(notes) == 1
    assert longer.summary["model_hash"] == begun["model_hash"]
    moved.unlink()
    feddiv.resume(tmp_path / "short", workers=0)  # the draw has all that is needed


def rejected(settings, said):
    with pytest.raises(UserError, match=said) as problem:
        feddiv.run("quickstart", {**SETTINGS, **settings}, workers=0)
    assert "\n" not in str(problem.value)


def test_what_cannot_be_used_is_said_in_one_line(tmp_path):
    file = tmp_path / "corrections.csv"
    key = {"data.corrections": str(file)}
    rejected(key, r"data\.corrections=.*: there is no such file or folder")
    rejected({"data.corrections": str(tmp_path)}, "has no corrections.csv in it")
    append(file, [Decision("999999", "3", DecisionKind.SKIP, "", "ann", TIME)])
    rejected(key, "the data have no such sample; is it a corrections file for other data")
    file.write_text("image,label\n5,cat\n")
    rejected(key, "is no corrections file")


@pytest.mark.slow
def test_corrections_of_another_draw_are_refused(file):
    rejected(
        {"data.corrections": str(file), "seed": 4, "data.images": None},
        "a corrections file for other data",
    )


@pytest.mark.slow
def test_clients_that_number_their_own_samples_are_told_apart_by_their_folder(tmp_path):
    rng = np.random.default_rng(0)
    clients = {
        name: (rng.normal(size=(12, 4)).astype(np.float32), np.arange(12) % 2)
        for name in ("north", "south")
    }
    settings = {
        "rounds": 1,
        "against": [],
        "clients.fraction": 1.0,
        "method.name": "fedavg",
        "model.name": "mlp",
        "evaluation.name": "held_out",
    }
    append_to = tmp_path / "clients" / "0001"
    append_to.mkdir(parents=True)
    row = Decision("3", "1", DecisionKind.CORRECT, "0", "ann", TIME)
    append(append_to / "corrections.csv", [row])
    with pytest.warns(Note, match="0 labels confirmed and 1 corrected"):
        run = feddiv.run(
            "own",
            {**settings, "data.corrections": str(tmp_path)},
            clients=clients,
            out=tmp_path / "run",
            workers=0,
        )
    draw = Draw.load(run.folder / "draw.npz")
    assert np.flatnonzero(draw.trusted).tolist() == [12 + 3]
    with (run.folder / "clients" / "0001" / "labels.csv").open(newline="") as file:
        rows = {row["sample"]: row for row in csv.DictReader(file)}
    assert rows["3"]["given_label"] == "0"
    assert rows["3"]["action"] == "keep"
    assert rows["4"]["action"] == ""
    one = tmp_path / "one.csv"
    one.write_bytes((append_to / "corrections.csv").read_bytes())
    settings = {**settings, "data.corrections": str(one)}
    with pytest.raises(UserError, match="call their samples alike"):
        feddiv.run("own", settings, clients=clients, workers=0)
