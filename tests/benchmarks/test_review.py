"""The truth plays the expert; a run that is in the results is not repeated."""

import json

import pytest

import review
from review import CHANCE, WORST, Job, Study


def test_a_row_has_means_over_seeds_of_both_orders():
    points = [(0, ""), (50, WORST), (50, CHANCE)]
    rows = {
        Job("digits", seed, order, count): {
            "corrected": count,
            "wrong_after": 0.2,
            "accuracy": 0.9 + seed / 100,
            "f1": 0.95,
            "found": 0.99,
            "precision": 0.9,
        }
        for seed in (1, 3)
        for count, order in points
    }
    lines = review.table("digits", rows, [1, 3]).splitlines()
    assert len(lines) == 2 + 3
    assert lines[3] == "| 50 | worst first | 50 | 20.0% | 92.00% | 0.950 | 99.0% | 90.0% |"


def test_a_row_counts_by_its_options_where_it_has_them():
    job = Job("digits", 1, "", 0)
    options = job.experiment.model_dump(mode="json", exclude_none=True)
    row = {"arguments": job.arguments}
    assert job.made(row)
    assert job.made({**row, "options": options})
    assert not job.made({**row, "options": {**options, "rounds": options["rounds"] + 1}})
    assert not job.made({"arguments": ["quickstart"], "options": options})


@pytest.mark.slow
def test_the_next_run_gets_what_the_truth_says(tmp_path, monkeypatch, capsys):
    tiny = (
        "quickstart",
        "against=[]",
        "rounds=3",
        "data.images=200",
        "data.test_images=50",
        "clients.count=3",
        "clients.fraction=1.0",
        "warmup.iterations=1",
        "train.epochs=2",
    )
    monkeypatch.setitem(review.STUDIES, "digits", Study(tiny, (40,), (1,)))
    arguments = ["digits", "--results", str(tmp_path), "--workers", "0"]
    with pytest.warns(match="corrected by experts"):
        review.main([*arguments, "--figure", str(tmp_path / "review.png")])
    rows = [json.loads(line) for line in (tmp_path / review.FILE).read_text().splitlines()]
    first, worst, chance = rows
    assert (first["reviewed"], worst["order"], chance["order"]) == (0, WORST, CHANCE)
    samples = 3 * 66
    assert worst["wrong_before"] == chance["wrong_before"] == first["wrong_after"]
    for row in (worst, chance):
        left = row["wrong_before"] - row["corrected"] / samples
        assert row["wrong_after"] == pytest.approx(left)
    assert worst["corrected"] > chance["corrected"]
    assert (tmp_path / "review.png").stat().st_size > 10_000
    capsys.readouterr()
    review.main(arguments)  # nothing is left to do
    assert len((tmp_path / review.FILE).read_text().splitlines()) == 3
    assert "| 40 | worst first |" in capsys.readouterr().out
