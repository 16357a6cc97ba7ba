"""What agrees with the paper, on numbers that a reader can check."""

from feddiv.config.reading import load_experiment
from feddiv.tables.agreement import agreement
from feddiv.tables.published import published
from feddiv.tables.rows import Row
from feddiv.tables.summary_table import summed_up

CELL = "cifar10-iid-0.8-0.5"  # published: FedAvg 72.00, FedCorr 90.59, FedDiv 91.44


def row(method: str, best: float, last: float | None = None) -> Row:
    experiment = load_experiment("quickstart", {"method.name": method, "against": []})
    options = experiment.model_dump(mode="json", exclude_none=True)
    ends = best if last is None else last
    summary = {"best_test_accuracy": best, "mean_last10_test_accuracy": ends, "draw": "x"}
    return Row("digits", method, 0, options, "", "", summary, paper=CELL)


def test_pairs_in_the_same_order_are_counted() -> None:
    rows = [row("fedavg", 0.80), row("fedcorr", 0.95), row("feddiv-paper", 0.90)]
    assert agreement(summed_up(rows)) == [
        "digits: 2 of 3 pairs of methods are in the paper's order; ours is "
        "fedcorr > feddiv-paper > fedavg, the paper's feddiv-paper > fedcorr > fedavg; "
        "from first to last 15.0 points, in the paper 19.4."
    ]


def test_methods_that_fall_after_their_best_round_are_named() -> None:
    rows = [row("fedavg", 0.80, 0.60), row("feddiv", 0.90, 0.89), row("fedrn", 0.7, 0.649)]
    assert agreement(summed_up(rows)) == [
        "digits: the last ten rounds are 5 points or more below the best one of fedavg, fedrn."
    ]


def test_a_yardstick_is_left_out() -> None:
    rows = [row("fedavg", 0.8), row("feddiv-perfect-filter", 0.9, 0.1)]
    assert agreement(summed_up(rows)) == []


def test_methods_that_the_paper_has_level_are_no_pair() -> None:
    names = [name for cell, name in published() if cell == CELL]
    number = {name: published()[CELL, name].mean for name in names}
    assert number["feddiv-paper"] == number["feddiv-release"]
    level = [row("feddiv-paper", 0.90), row("feddiv-release", 0.91)]
    assert agreement(summed_up([row("fedavg", 0.80), *level])) == [
        "digits: 2 of 2 pairs of methods are in the paper's order; ours is "
        "feddiv-release > feddiv-paper > fedavg, the paper's feddiv-paper = feddiv-release > "
        "fedavg; from first to last 11.0 points, in the paper 19.4."
    ]
    assert agreement(summed_up(level)) == []  # no order to agree with
