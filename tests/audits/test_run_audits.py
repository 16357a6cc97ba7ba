"""Audits of runs: whose labels, under which names, and what odd runs have."""

import csv
import shutil

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from tests.audits.conftest import SETTINGS

import feddiv
from feddiv.audits.folder import write_audit
from feddiv.audits.overview import audits_in_short
from feddiv.cli import main
from feddiv.core.errors import UserError
from feddiv.data import Draw
from feddiv.review.opening import reviewable

pytestmark = pytest.mark.slow


def rows_of(file):
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def cli(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    return ended.value.code


def test_a_run_leaves_every_client_its_list_by_names_that_its_owner_knows(finished):
    folders = sorted((finished.folder / "clients").iterdir())
    assert [folder.name for folder in folders] == ["0000", "0001", "0002"]
    left = ["audit.json", "labels.csv"]
    assert all(sorted(file.name for file in folder.iterdir()) == left for folder in folders)
    truth, wrong, seen = load_digits().target, 0, set()
    for folder in folders:
        for row in rows_of(folder / "labels.csv"):
            wrong += int(row["given_label"]) != truth[int(row["sample"])]
            seen.add(row["sample"])
    assert len(seen) == 420  # rows of scikit-learn's digits, none at two clients
    assert wrong == round(finished.summary["wrong"] * 420)


def test_estimate_issues_and_ranking_agree_with_each_other_and_with_the_truth(finished):
    audits = feddiv.audit(finished)
    draw = Draw.load(finished.folder / "draw.npz")
    for client, audit in enumerate(audits):
        part = draw.parts[client]
        wrong = draw.given[part] != draw.truth[part]
        assert abs(audit.estimate.share - wrong.mean()) < 0.06
        assert audit.is_label_issue.sum() == round(audit.estimate.share * len(audit))
        worst = audit.ranking[: audit.judged.almost_sure]
        assert not len(worst) or wrong[worst].mean() > 0.9
    short = audits_in_short(finished)
    assert [each.estimate for each in short] == [each.estimate for each in audits]
    assert len(audits.table) == 420


@pytest.mark.parametrize(
    ("method", "said"),
    [("feddiv", "The run had one round only."), ("feddiv-audit", "")],
)
def test_a_model_of_one_round_is_said_to_be_young_if_it_was_trained(tmp_path, method, said):
    settings = SETTINGS | {"method.name": method, "rounds": 1, "warmup.iterations": 0}
    run = feddiv.run("quickstart", settings, out=tmp_path / "run", workers=0)
    for audit in feddiv.audit(run):
        assert any(line.startswith("The run had") for line in audit.missing) == bool(said)
        assert any(said in line for line in audit.missing) == bool(said)


def test_pages_come_by_the_command_and_the_lists_stay_the_same(finished, tmp_path, capsys):
    run = tmp_path / "copy"
    shutil.copytree(finished.folder, run)
    before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    assert cli("audit", run) == 0
    after = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
    pages = {run / "clients" / f"000{client}" / "labels.html" for client in range(3)}
    assert {file: after[file] for file in before} == before
    assert after.keys() - before.keys() == pages
    page = (run / "clients" / "0001" / "labels.html").read_text()
    assert "Labels of client 1" in page
    assert f"The run had {finished.experiment.rounds} rounds only." in page
    assert "data:image/png" in page
    out = capsys.readouterr().out
    assert "client 2" in out
    assert "labels.html" in out


def test_reading_a_finished_run_again_leaves_what_somebody_noted_in_a_list(finished, tmp_path):
    run = tmp_path / "copy"
    shutil.copytree(finished.folder, run)
    noted = run / "clients" / "0002" / "labels.csv"
    noted.write_text("mine\n")
    feddiv.resume(run, workers=0)
    assert noted.read_text() == "mine\n"


def test_where_a_list_is_there_its_facts_are_too(finished, tmp_path):
    """So that a run that is killed between the two writes both again."""
    (tmp_path / "audit.json").mkdir()
    with pytest.raises(OSError, match=r"audit\.json"):
        write_audit(tmp_path, feddiv.audit(finished)[0], page=False)
    assert not (tmp_path / "labels.csv").exists()


def test_samples_that_were_not_in_the_run_are_judged_by_its_model_and_filter(
    finished, tmp_path, capsys, monkeypatch
):
    digits = load_digits()
    rng = np.random.default_rng(0)
    wrong = []
    for number in range(0, 1797, 6):
        label = digits.target[number]
        if rng.random() < 0.3:
            label = (label + rng.integers(1, 10)) % 10
            wrong.append(f"{label}/{number}.png")
        file = tmp_path / "mine" / str(label) / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.rint(digits.images[number] * 255 / 16).astype(np.uint8)).save(file)
    out = tmp_path / "out"
    assert cli("audit", finished.folder, "--data", tmp_path / "mine", "--out", out) == 0
    rows = rows_of(out / "mine" / "labels.csv")
    issues = {row["sample"] for row in rows if row["is_label_issue"] == "True"}
    assert len(rows) == 300
    assert abs(len(issues) - len(wrong)) <= 15
    assert len(issues & set(wrong)) >= 0.85 * len(wrong)
    # Data that are where one stands have a name, too.
    monkeypatch.chdir(tmp_path / "mine" / "0")
    assert cli("audit", finished.folder, "--data", "..", "--out", tmp_path / "o" / "here") == 0
    assert [each.name for each in (tmp_path / "o").iterdir()] == ["here"]
    assert rows_of(tmp_path / "o" / "here" / "mine" / "labels.csv") == rows
    # The same model without the run's filter: these samples find one by themselves.
    (alone,) = feddiv.audit(model=finished.folder, data=tmp_path / "mine")
    assert abs(alone.estimate.share - len(wrong) / 300) < 0.06


@pytest.mark.parametrize("kind", ["folder", "npz", "both"])
def test_a_site_of_one_class_is_audited_beside_others(finished, tmp_path, kind):
    """The model knows all classes, whatever a site has of them."""
    digits = load_digits()
    images = np.rint(digits.images * 255 / 16).astype(np.uint8)
    ones, some = np.flatnonzero(digits.target == 3)[:12], np.arange(40)
    for site, rows in (("onec", ones), ("more", some)):
        for number in rows:
            file = tmp_path / site / str(digits.target[number]) / f"{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(images[number]).save(file)
    alone = tmp_path / "onec"
    if kind == "npz":
        alone = tmp_path / "onec.npz"
        np.savez(alone, x=images[ones], y=digits.target[ones].astype(str))
    judge = ["--model", finished.folder] if kind == "both" else [finished.folder]
    out = tmp_path / "out"
    data = ["--data", alone, "--data", tmp_path / "more"]
    assert cli("audit", *judge, *data, "--out", out) == 0
    rows = rows_of(out / alone.name / "labels.csv")
    assert [row["given_label"] for row in rows] == ["3"] * 12
    assert all(row["label_quality"] for row in rows)
    page = (out / alone.name / "labels.html").read_text()
    assert "All labels of this site are of one class, 3." in page
    assert len(rows_of(out / "more" / "labels.csv")) == 40
    [site] = reviewable(out / alone.name)  # the samples are found again
    assert site.open().looks.kind == "image"


def test_a_run_that_is_not_over_is_judged_by_its_checkpoint(finished, tmp_path, capsys):
    run = tmp_path / "stopped"
    shutil.copytree(finished.folder, run)
    shutil.rmtree(run / "clients")
    (run / "summary.json").unlink()
    audits = feddiv.audit(run)
    ended = feddiv.audit(finished)
    assert "not over" in audits[0].missing[0]
    # Its last checkpoint is the end: the opinions are the same.
    assert [each.estimate for each in audits] == [each.estimate for each in ended]
    shutil.rmtree(run / "checkpoint")
    assert cli("audit", run) == 0
    assert "first checkpoint" in capsys.readouterr().out
    assert "first checkpoint" in (run / "clients" / "0000" / "labels.html").read_text()
    rows = rows_of(run / "clients" / "0000" / "labels.csv")
    assert rows[0]["given_label"]
    assert rows[0]["label_quality"] == ""


def test_a_method_without_an_opinion_says_what_is_missing(tmp_path, capsys):
    settings = {**SETTINGS, "method.name": "fedavg", "rounds": 2, "train.epochs": 1}
    run = feddiv.run("quickstart", settings, out=tmp_path / "run", workers=0)
    rows = rows_of(run.folder / "clients" / "0000" / "labels.csv")
    assert rows[0]["predicted_label"]
    assert rows[0]["is_label_issue"] == ""
    assert cli("audit", run.folder) == 0
    page = (run.folder / "clients" / "0000" / "labels.html").read_text()
    assert "fedavg has no opinion of single labels" in page
    assert "fedavg has no opinion" in capsys.readouterr().out


def test_a_method_that_judges_only_what_it_was_trained_on_says_so(tmp_path, capsys):
    settings = {**SETTINGS, "method.name": "jointopt", "rounds": 3, "train.epochs": 1}
    run = feddiv.run("quickstart", settings, out=tmp_path / "run", workers=0)
    assert feddiv.audit(run)[0].judged is not None
    digits = load_digits()
    mine = tmp_path / "mine.npz"
    pixels = np.rint(digits.images[:30] * 255 / 16).astype(np.uint8)
    np.savez(mine, x=pixels, y=digits.target[:30].astype(str))
    assert cli("audit", run.folder, "--data", mine, "--out", tmp_path / "out") == 0
    said = capsys.readouterr().out
    assert "jointopt has no opinion of labels that it was not trained on" in said
    assert "none yet" not in said
    [audit] = feddiv.audit(run, data=mine)
    assert len(audit.missing) == 1


def test_labels_that_are_kept_out_of_training_are_in_the_list_too(tmp_path):
    settings = {**SETTINGS, "evaluation.name": "held_out", "rounds": 3, "train.epochs": 1}
    run = feddiv.run("quickstart", settings, out=tmp_path / "run", workers=1)
    again = feddiv.resume(run.folder, workers=0)
    lists = [rows_of(file) for file in sorted(run.folder.glob("clients/*/labels.csv"))]
    assert sum(map(len, lists)) == 420
    assert len(run.assessment["sample"]) + len(run.assessment["held_out_sample"]) == 420
    assert sorted(again.assessment) == sorted(run.assessment)
    assert [len(each) for each in feddiv.audit(run)] == [len(rows) for rows in lists]
    assert [len(each) for each in audits_in_short(run)] == [len(rows) for rows in lists]


@pytest.mark.parametrize("broken", ["empty", "missing", "config", "foreign"])
def test_a_folder_that_is_no_run_is_one_line_and_nothing_is_written(
    broken, finished, tmp_path, capsys
):
    folder = tmp_path / "folder"
    if broken != "missing":
        folder.mkdir()
    if broken == "config":
        (folder / "config.toml").write_text("rounds = 1")
    if broken == "foreign":
        shutil.rmtree(folder)
        shutil.copytree(finished.folder, folder)
        (folder / "clients" / "0000" / "labels.csv").unlink()
        (folder / "clients" / "0000" / "labels.csv").symlink_to(tmp_path / "elsewhere")
    before = sorted(tmp_path.rglob("*"))
    assert cli("audit", folder) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert str(folder) in said
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("label_quality", lambda v: v + 1, "not from 0 to 1"),
        ("predicted_label", lambda v: v + 10, "is no class"),
        ("sample", lambda v: v[::-1].copy(), "not those of draw.npz"),
    ],
)
def test_an_assessment_that_somebody_changed_is_refused(finished, tmp_path, name, change, said):
    run = tmp_path / "copy"
    shutil.copytree(finished.folder, run)
    arrays = dict(np.load(run / "assessment.npz"))
    np.savez(run / "assessment.npz", **{**arrays, name: change(arrays[name])})
    with pytest.raises(UserError, match=said):
        feddiv.audit(run)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "one of these"),
        (["--model", "m", "--probabilities", "p"], "one of these"),
        (["--probabilities", "p.npz", "--data", "d"], "needs no samples"),
        (["run", "--out", "o"], "go to"),
        (["--model", "nowhere", "--data", "d"], "there is no model"),
        (["--probabilities", "nowhere.npz"], "there is no such file"),
        (["--probabilities", "nowhere.txt"], "is no file of"),
    ],
)
def test_what_cannot_be_audited_is_one_line(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli("audit", *arguments) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert said in told
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_training_finds_a_filter_for_a_model_that_is_there(finished, tmp_path):
    """The variant feddiv-audit: what sites on Flower with one classifier run."""
    weights = finished.folder / "model.safetensors"
    settings = {
        **SETTINGS,
        "method.name": "feddiv-audit",
        "model.weights": str(weights),
        "rounds": 1,
        "warmup.iterations": 0,
        "data.draw": str(finished.folder / "draw.npz"),
    }
    run = feddiv.run("quickstart", settings, out=tmp_path / "run", workers=0)
    before, after = feddiv.load(weights), feddiv.load(run.folder)
    for name, tensor in before.nets["net"].state_dict().items():
        assert (after.nets["net"].state_dict()[name] == tensor).all()
    assert run.summary["bytes_up"] < 3 * 2000  # three clients, a few hundred numbers each
    for audit, trained in zip(feddiv.audit(run), feddiv.audit(finished), strict=True):
        assert abs(audit.estimate.share - trained.estimate.share) < 0.06
