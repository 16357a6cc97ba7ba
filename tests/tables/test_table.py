"""Tables: means and tests worked out by hand, and every format."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

import feddiv
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.tables.compare import holm, paired_p, verdicts
from feddiv.tables.rows import Row, add_row
from feddiv.tables.summary_table import legend, summed_up
from feddiv.tables.verb import table_of, written


def row(
    method: str,
    seed: int,
    accuracy: float,
    setting: str = "digits",
    draw: str = "",
    **overrides: object,
) -> Row:
    given = {"method.name": method, "seed": seed, "against": [], **overrides}
    experiment = load_experiment("quickstart", given)
    summary = {
        "best_test_accuracy": accuracy,
        "last_test_accuracy": accuracy - 0.1,
        "mean_last10_test_accuracy": accuracy - 0.05,
        "filter": {"f1": 0.9} if method.startswith("feddiv") else None,
        "seconds": 10.0 * (seed + 1),
        "rounds": 33,
        "draw": draw or f"draw {seed}",
    }
    options = experiment.model_dump(mode="json", exclude_none=True)
    return Row(setting, method, seed, options, "", "2026-01-02", summary, [accuracy])


GOOD = [0.90, 0.92, 0.94, 0.92]
BAD = [0.70, 0.71, 0.74, 0.73]
LIKE = [0.91, 0.90, 0.93, 0.90]
ROWS = [
    row(method, seed, value)
    for method, values in (("fedavg", BAD), ("fedcorr", LIKE), ("feddiv", GOOD))
    for seed, value in enumerate(values)
]


def test_the_test_is_scipys() -> None:
    from scipy import stats

    p = float(stats.ttest_rel(GOOD, LIKE).pvalue)
    assert paired_p(GOOD, LIKE) == pytest.approx(p)


def test_differences_without_spread_tell_nothing() -> None:
    ahead, after = [0.4, 0.6, 0.7], [0.3, 0.5, 0.6]
    assert paired_p(ahead, after) == 1.0
    values = {"ahead": dict(enumerate(ahead)), "after": dict(enumerate(after))}
    assert verdicts(values) == {"ahead": "best", "after": "level"}


def test_holm_is_less_strict_than_bonferroni_and_monotone() -> None:
    assert holm({"a": 0.02, "b": 0.02, "c": 0.9}) == {"a": 0.06, "b": 0.06, "c": 0.9}
    assert holm({}) == {}


def test_a_method_is_behind_level_or_has_too_few_seeds() -> None:
    values = {
        "good": dict(enumerate(GOOD)),
        "bad": dict(enumerate(BAD)),
        "like": dict(enumerate(LIKE)),
        "once": {0: 0.2, 7: 0.1},
        "never": {},
    }
    assert verdicts(values) == {
        "good": "best",
        "bad": "behind",
        "like": "level",
        "once": "too few seeds",
    }
    assert verdicts({}) == {}


def test_one_lucky_seed_is_not_the_best_of_methods_with_more() -> None:
    values = {"good": dict(enumerate(GOOD)), "bad": dict(enumerate(BAD)), "lucky": {2: 0.99}}
    assert verdicts(values) == {"good": "best", "bad": "behind", "lucky": "too few seeds"}
    once = {name: {2: found[2]} for name, found in values.items()}  # all have as few
    assert verdicts(once)["lucky"] == "best"


def test_markdown_has_means_the_best_in_bold_and_marks() -> None:
    text = written(summed_up(ROWS), "md", paper=False, show="all")
    lines = text.splitlines()
    assert lines[0].startswith("| setting | method | seeds | best | last | last ten | filter F1 |")
    assert lines[2:5] == [
        "| digits | fedavg | 0 to 3 | 72.0±1.8 | 62.0±1.8 | 67.0±1.8 | – | 25±13 s |",
        "| digits | fedcorr | 0 to 3 | 91.0±1.4° | 81.0±1.4° | 86.0±1.4° | – | 25±13 s |",
        "| digits | feddiv | 0 to 3 | **92.0±1.6** | **82.0±1.6** | **87.0±1.6** | "
        "**0.900±0.000** | 25±13 s |",
    ]
    assert "°: not told apart from the best by a paired t-test over seeds" in text
    assert "Holm" in text


def test_two_seeds_are_too_few_to_tell() -> None:
    table = summed_up([each for each in ROWS if each.seed < 2])
    text = written(table, "md", paper=False, show="all")
    assert "°" not in text
    assert "?" not in text
    assert "**91.0±1.4**" in text
    assert legend(table)[-1] == (
        "2 seeds: with fewer than 3 no difference can be told from chance."
    )


def test_a_method_with_fewer_seeds_than_others_is_marked() -> None:
    text = written(summed_up([*ROWS, row("rofl", 0, 0.3)]), "md", paper=False, show="best")
    assert "| rofl | 30.0? |" in text
    assert "?: fewer than 3 seeds in common with the best" in text


def test_a_yardstick_is_never_best() -> None:
    perfect = [row("feddiv-perfect-filter", seed, 0.99) for seed in range(4)]
    table = summed_up([*ROWS, *perfect])
    line = table.line("digits", "feddiv-perfect-filter")
    assert line is not None
    assert line.yardstick
    assert {each.verdict for each in line.measured.values()} == {None}
    best = table.line("digits", "feddiv")
    assert best is not None
    assert best.measured["best"].verdict == "best"
    assert "| (feddiv-perfect-filter) |" in written(table, "md", paper=False, show="all")


def test_rows_of_other_options_are_never_averaged() -> None:
    other = [
        row("fedavg", 9, 0.1, **{"rounds": 40}),
        row("fedavg", 8, 0.1, **{"method.mixup": True}),
    ]
    table = summed_up([*ROWS, *other])
    assert len(table.settings) == 2
    assert set(table.methods) == {"fedavg [1]", "fedavg [2]", "fedcorr", "feddiv"}
    assert sum("is the name of 2" in note for note in table.notes) == 2


def test_methods_on_other_draws_are_not_paired() -> None:
    table = summed_up([*ROWS[:11], row("feddiv", 3, 0.9, draw="another")])
    assert {each.verdict for line in table.lines for each in line.measured.values()} == {None}
    assert any("other draws on seed 3" in note for note in table.notes)


def test_a_run_that_was_made_twice_counts_once() -> None:
    (line,) = summed_up([row("fedavg", 0, 0.5), row("fedavg", 0, 0.7)]).lines
    assert (line.measured["best"].mean, line.measured["best"].std) == (0.7, None)


def test_latex_is_booktabs_and_escaped() -> None:
    rows = [row("fedavg", 0, 0.5, "50% & more_"), row("fedcorr", 0, 0.6, "50% & more_")]
    text = written(summed_up(rows), "latex", paper=True, show="all")
    assert r"\begin{tabular}{llrrrrrrr}" in text
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 1
    assert r"50\% \& more\_ & fedavg & 0 & 50.0 &" in text
    assert r" & fedcorr & 0 & \textbf{60.0} &" in text
    both = written(summed_up(ROWS), "latex", paper=False, show="best")
    assert r"fedavg & 72.0$\pm$1.8 \\" in both
    assert r"91.0$\pm$1.4$^{\circ}$" in both


def test_csv_has_numbers_for_programs() -> None:
    rows = [*ROWS, row("fedprox", 0, 0.4, "=1+1")]
    read = list(
        csv.DictReader(io.StringIO(written(summed_up(rows), "csv", paper=True, show="all")))
    )
    assert [float(each["best_mean"]) for each in read[:3]] == [0.72, 0.91, 0.92]
    assert [each["best_verdict"] for each in read] == ["behind", "level", "best", ""]
    assert read[0]["seeds"] == "0 1 2 3"
    assert read[3]["setting"] == "'=1+1"


@pytest.mark.parametrize("kind", ["md", "csv", "latex"])
@pytest.mark.parametrize("show", ["all", "best", "seeds"])
def test_what_others_wrote_does_nothing_and_fills_no_screen(kind: str, show: str) -> None:
    evil = "\x1b]0;evil\x07\n\u202e"
    rows = [
        replace(each, setting=evil + "s" * 5_000_000, method=f"{evil}{each.method}", date=evil)
        for each in (*ROWS, row("fedavg", 0, 0.5, **{"clients.count": 7}))
    ]
    text = written(summed_up(rows), kind, paper=True, show=show)
    assert "evil" in text
    assert not set("\x1b\x07\u202e") & set(text)
    assert len(text) < 20_000
    assert len(text.splitlines()) < 20


def test_a_date_is_no_formula() -> None:
    formula = '=HYPERLINK("http://x.example","y")'
    rows = [replace(ROWS[0], date=formula), replace(ROWS[1], date="2026-01-03")]
    text = written(summed_up(rows), "csv", paper=False, show="all")
    (line,) = csv.DictReader(io.StringIO(text))
    assert line["dates"] == f"2026-01-03 {formula}"
    text = written(summed_up(rows[:1]), "csv", paper=False, show="all")
    (line,) = csv.DictReader(io.StringIO(text))
    assert line["dates"] == f"'{formula}"
    assert line["seeds"] == "0"


def test_published_cells_stand_beside_ours() -> None:
    rows = [Row(**{**each.as_json(), "paper": "cifar10-iid-0.8-0.5"}) for each in ROWS]
    text = written(summed_up(rows), "md", paper=True, show="best")
    assert text.splitlines()[0] == "| method, best | digits | published |"
    assert "| fedavg | 72.0±1.8 | 72.00±2.76 |" in text
    assert "| feddiv | **92.0±1.6** | – |" in text


def test_places_are_files_folders_of_sweeps_and_folders_of_runs(tmp_path: Path) -> None:
    for each in ROWS:
        add_row(tmp_path / "sweep" / "rows.jsonl", each)
    text = feddiv.table(tmp_path / "sweep")
    assert text == table_of([tmp_path / "sweep" / "rows.jsonl"])
    made_before = ROOT / "tests" / "runs" / "made_before"
    with pytest.raises(UserError, match=r"made_before: holds no rows\.jsonl and no finished run"):
        feddiv.table(made_before)  # it was never finished
    with pytest.raises(UserError, match="there is no such file or folder"):
        feddiv.table(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("keys", "said"), [({"format": "html"}, "--format html"), ({"show": "bset"}, "mean 'best'")]
)
def test_unknown_words(tmp_path: Path, keys: dict[str, str], said: str) -> None:
    add_row(tmp_path / "rows.jsonl", ROWS[0])
    with pytest.raises(UserError, match=said):
        feddiv.table(tmp_path, **keys)  # type: ignore[arg-type]


def test_committed_results_make_a_table() -> None:
    text = feddiv.table(ROOT / "benchmarks" / "results" / "cifar10.jsonl", show="seeds")
    line = "| cifar10-laptop | FedAvg | 0.374 0.527 0.371 | **0.424** | 0.486 | – | – |"
    assert line in text


def test_a_method_that_is_ahead_on_the_seeds_in_common_is_not_behind() -> None:
    values = {
        "more seeds": {0: 0.50, 1: 0.51, 2: 0.50, 3: 0.95, 4: 0.95},
        "fewer": {0: 0.60, 1: 0.61, 2: 0.61},
    }
    assert verdicts(values) == {"more seeds": "best", "fewer": "level"}


def test_a_yardstick_is_in_brackets_in_every_layout() -> None:
    rows = [*ROWS, row("feddiv-perfect-filter", 0, 0.99)]
    for show in ("all", "best"):
        text = written(summed_up(rows), "md", paper=False, show=show)
        assert "| (feddiv-perfect-filter) |" in text
        assert "In brackets: it knows the true labels" in text


def test_methods_of_a_preset_with_few_rounds_are_one_setting() -> None:
    # Of four rounds there is no room for the preset's warm-up, which fedavg does not use.
    rows = [row("fedavg", 0, 0.5, rounds=4), row("feddiv", 0, 0.6, rounds=4)]
    iterations = [each.options["warmup"]["iterations"] for each in rows]
    assert iterations[0] > iterations[1]
    table = summed_up(rows)
    assert table.settings == ["digits"]
    assert table.lines[1].measured["best"].verdict == "best"
