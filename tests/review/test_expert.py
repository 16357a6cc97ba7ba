"""Run, audit, review by an expert who knows the truth, run again: what it changes."""

import json

import pytest
from tests.review.processes import started
from tests.review.visits import visited

import feddiv
from feddiv.config.reading import load_experiment
from feddiv.data.corrections import Review, read
from feddiv.runs.prepare import drawn

pytestmark = pytest.mark.full
SETTINGS = {
    "against": [],
    "rounds": 8,
    "data.images": 600,
    "clients.count": 3,
    "clients.fraction": 1.0,
    "warmup.iterations": 2,
    "train.epochs": 4,
    "seed": 3,
}
LABELS = 100


def test_an_expert_reviews_a_hundred_labels(tmp_path, browser):
    before = feddiv.run("quickstart", SETTINGS, out=tmp_path / "before", workers=0)
    audits = feddiv.audit(before)
    worst = max(range(len(audits)), key=lambda client: audits[client].estimate.share)
    dataset, draw = drawn(load_experiment(before.folder / "config.toml"))
    truth = {dataset.name_of(row): int(draw.truth[row]) for row in range(len(draw.given))}

    with started(before.folder, "--client", str(worst), "--reviewer", "expert") as server:
        with visited(browser, server.address) as visit:
            page = visit.page
            page.wait_for_selector(".card .name:not(:empty)")
            visit.press("Enter")
            for number in range(LABELS):
                name = page.wait_for_function(
                    "([where]) => document.querySelector('#facts .where span').textContent"
                    ".startsWith(`${where} of`) && !document.querySelector('#facts h2')"
                    ".textContent.startsWith('…') && "
                    "document.querySelector('#facts h2').textContent",
                    arg=[number + 1],
                ).json_value()
                visit.press(str(truth[name]))  # digits have themselves as keys
            visit.settled()
            said = visit.counts()
        assert server.interrupt() == 0

    file = before.folder / "clients" / f"{worst:04d}" / "corrections.csv"
    labels = Review.of(read(file).decisions).labels
    assert len(labels) == LABELS
    assert labels == {name: str(truth[name]) for name in labels}
    ranked = audits[worst].columns()["sample"][:LABELS]
    assert set(labels) == set(ranked)  # the worst first

    changes = {**SETTINGS, "data.corrections": str(before.folder)}
    after = feddiv.run("quickstart", changes, out=tmp_path / "after", workers=0)
    again = feddiv.audit(after)[worst]
    fixed = sum(
        audits[worst].columns()["given_label"][place] != labels[name]
        for place, name in enumerate(ranked)
    )
    assert f"Found {fixed} wrong" in said
    wrong = [int((each != draw.truth).sum()) for each in (draw.given, _given(after.folder))]
    assert wrong[0] - wrong[1] == fixed
    assert fixed > 80  # worst first: most of what is shown is wrong
    assert again.estimate.share < audits[worst].estimate.share
    figures = [json.loads((run.folder / "summary.json").read_text()) for run in (before, after)]
    accuracy = [each["mean_last10_test_accuracy"] for each in figures]
    print(f"wrong labels {wrong[0]} -> {wrong[1]}, accuracy {accuracy[0]:.3f} -> {accuracy[1]:.3f}")
    assert accuracy[1] > accuracy[0] - 0.02


def _given(folder):
    from feddiv.data import Draw

    return Draw.load(folder / "draw.npz").given
