"""What charts are made of, in numbers that can be checked by hand."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from tests.reports.folders import MIXTURE, Shape, made_run

from feddiv.data import Draw
from feddiv.methods.registry import METHODS, names_of
from feddiv.reports.client_quality import Quality, by_client, clients_of, hardest, means
from feddiv.reports.confusions import confusions, representative
from feddiv.reports.page import report_page
from feddiv.reports.palette import COLOURS, styles
from feddiv.reports.picture import draw_picture
from feddiv.reports.ranking import rankings
from feddiv.reports.record import RunRecord, Visits, read_runs
from feddiv.reports.scores import axis_of, scores_by_round
from feddiv.reports.verdict import findings


@pytest.fixture
def run(tmp_path: Path) -> RunRecord:
    """Client 0 is clean; of client 1's labels the first and the third are wrong."""
    draw = Draw(
        dataset="toy",
        parts=(np.array([0, 1]), np.array([2, 3, 4])),
        given=np.array([0, 1, 1, 0, 1]),
        truth=np.array([0, 1, 0, 0, -1]),
        levels=None,
        fingerprint="",
        names=("north", "south"),
    )
    table = {
        "client": np.array([0, 0, 1, 1, 1]),
        "given_label": draw.given,
        "true_label": draw.truth,
        "predicted_label": draw.given,
        "label_quality": np.array([0.9, 0.2, 0.1, 0.8, 0.6]),
        "score": np.array([-3.0, 1.0, 2.0, -2.0, -1.0]),
    }
    rounds = [
        {"round": 1, "stage": "warmup", "test_accuracy": 0.2, "mixture": None},
        {"round": 2, "stage": "train", "test_accuracy": 0.8, "mixture": MIXTURE,
         "scores": {"low": -8.0, "high": 8.0, "right": [3, 0], "wrong": [0, 1]}},
    ]  # fmt: skip
    visit = {"round": 2, "noise_level": 0.5, "labels_filtered": [[0, 0, 1]], "labels_reselected": 3}
    config = {"rounds": 2, "method": {"name": "feddiv", "filter": {"score": "log_odds"}}}
    summary = {"rounds": 2, "mean_last10_test_accuracy": 0.8, "best_test_accuracy": 0.8}
    return RunRecord(
        tmp_path, "feddiv", "feddiv", config, "", rounds, Visits({1: visit}), summary, table, draw
    )


def test_quality_by_client(run: RunRecord) -> None:
    judged = by_client(run)
    assert judged[0] == Quality(flagged=0.5, accuracy=0.5, precision=None, recall=None)
    assert judged[1] == Quality(pytest.approx(1 / 3), pytest.approx(2 / 3), 1.0, 0.5)
    held = clients_of(run)
    assert [(each.name, each.wrong) for each in held] == [("north", 0.0), ("south", 2 / 3)]
    assert hardest(held, judged, clean=True) == 0
    assert hardest(held, judged, clean=False) == 1
    assert means(held, judged, clean=True) == {"accuracy": 0.5, "precision": None, "recall": None}


def test_before_the_end_the_last_visits_tell(run: RunRecord) -> None:
    counts = {"flagged_wrong": 1, "flagged_right": 0, "kept_wrong": 1, "kept_right": 1}
    visits = Visits({1: {"noise_level": 1 / 3, "filter": counts}, 0: {"noise_level": 0.5}})
    judged = by_client(replace(run, summary={}, assessment={}, visits=visits))
    assert judged == {1: Quality(1 / 3, pytest.approx(2 / 3), 1.0, 0.5), 0: Quality(0.5)}


def test_without_the_truth_only_what_was_flagged_is_known(run: RunRecord) -> None:
    assert run.draw is not None
    table = {key: value for key, value in run.assessment.items() if key != "true_label"}
    blind = replace(run, assessment=table, draw=replace(run.draw, truth=None))
    assert by_client(blind)[0] == Quality(0.5)
    assert hardest(clients_of(blind), by_client(blind), clean=True) is None
    assert confusions(blind) == {}


def test_labels_by_the_rank_of_their_scores(run: RunRecord) -> None:
    ranking = rankings(run, 100)[1]
    assert ranking.p_clean.tolist() == [0.8, 0.6, 0.1]
    assert ranking.wrong is not None
    assert ranking.wrong.tolist() == [False, True, True]
    assert rankings(run, 2)[1].rank.tolist() == [0, 2]  # ends stay where some are left out


def test_confusions_of_the_last_visit(run: RunRecord) -> None:
    found = confusions(run)
    assert list(found) == [1]
    assert found[1].given == [[-1, 1, 1], [0, 0, 1], [0, 1, 1]]
    assert found[1].filtered == [[0, 0, 1]]
    assert found[1].reselected is None  # what stands there is no list of cells
    assert representative(clients_of(run), {0, 1}) == [0, 1]


@pytest.mark.parametrize("when", [float("inf"), float("nan"), 10**400, "3"])
def test_a_visit_in_no_round(run: RunRecord, when: object) -> None:
    visits = replace(run.visits, last={1: {**run.visits.last[1], "round": when}})
    assert confusions(replace(run, visits=visits))[1].round == 0.0


def test_scores_by_round_and_at_the_end(run: RunRecord) -> None:
    first, last = scores_by_round(run)
    assert (first.round, first.counts["right"], first.everybody) == (2.0, [3, 0], False)
    assert last.everybody
    assert (last.low, last.high) == (-8.0, 8.0)  # the bins of the rounds
    assert (sum(last.counts["right"]), sum(last.counts["wrong"])) == (3, 2)
    assert axis_of(run) == "log-odds against the given label"
    grid = np.linspace(-30, 30, 2001)
    densities = last.densities(grid)
    assert densities is not None
    # Five labels in bins half a unit wide; the clean part has six tenths of them.
    areas = [np.trapezoid(part, grid) / 0.5 for part in densities]
    assert areas == pytest.approx([3.0, 2.0], rel=1e-3)


def test_scores_are_scaled_at_each_client_as_the_filter_does(run: RunRecord) -> None:
    config = {**run.config, "method": {"name": "feddiv", "filter": {"scale": "minmax"}}}
    plain = [{**line, "scores": None} for line in run.rounds]
    (last,) = scores_by_round(replace(run, config=config, rounds=plain))
    assert (last.low, last.high) == (0.0, 1.0)
    assert last.counts["right"][0] == 2  # the lowest of both clients


def test_equal_scores(run: RunRecord) -> None:
    table = {**run.assessment, "score": np.log(9) + 1e-15 * np.arange(5)}
    plain = [{**line, "scores": None} for line in run.rounds]
    (last,) = scores_by_round(replace(run, assessment=table, rounds=plain))
    assert sum(map(sum, last.counts.values())) == 5


def test_colours_stay_with_a_method() -> None:
    alone = styles(["fedcorr"])[0]
    assert styles(["feddiv", "fedavg", "fedcorr"])[2] == alone
    twice = styles(["feddiv", "feddiv"])
    assert twice[0].colour == twice[1].colour
    assert twice[0].dashes != twice[1].dashes
    every = styles(["feddiv-paper", *METHODS, "my.own:Method"])
    assert len(set(every)) == len(every)


# What is left of red, green and blue light for most eyes, without green cones, without red ones
# (Machado et al. 2009).
EYES = {
    "most": np.eye(3),
    "deuteranopes": np.array(
        [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]
    ),
    "protanopes": np.array(
        [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]
    ),
}


def seen(colour: str, eyes: np.ndarray) -> np.ndarray:
    """A colour in Oklab, in which distances are what people see."""
    coded = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    light = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    cones = np.array(
        [[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]
    ) @ np.clip(eyes @ light, 0, 1)
    return np.array(
        [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
    ) @ np.cbrt(np.clip(cones, 0, None))


@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("ground", ["paper", "dark screen"])
def test_every_method_has_a_colour_of_its_own(eyes: str, ground: str) -> None:
    chosen = [style.colour for style in styles([*METHODS, "my.own:Method"])]
    place = ["paper", "dark screen"].index(ground)
    drawn = {name: seen(COLOURS[name][place], EYES[eyes]) for name in chosen}
    assert len(drawn) == len(METHODS) + 1
    # Okabe and Ito's own green and purple are 0.076 apart for deuteranopes.
    least = 0.1 if eyes == "most" else 0.055
    near = {
        (a, b): round(float(np.linalg.norm(drawn[a] - drawn[b])), 3)
        for a, b in combinations(drawn, 2)
    }
    assert {pair: far for pair, far in near.items() if far < least} == {}


def test_variants_share_the_colour_of_their_method() -> None:
    every = styles([*names_of("feddiv"), "feddiv-paper"])[:8]
    assert {style.colour for style in every} == {"blue"}
    assert len({style.dashes for style in every}) == 8
    assert every[0].dashes == ""
    assert every[0].mark != every[1].mark
    assert styles(["feddiv-paper", "feddiv"])[1] == every[0]  # whichever comes first


def words(run: RunRecord, *others: RunRecord) -> str:
    return "\n".join(f"{each.mark}: {each.words}" for each in findings(run, others))


def test_what_is_said_of_a_run(tmp_path: Path) -> None:
    made_run(tmp_path / "a", Shape(samples=200))
    made_run(tmp_path / "a" / "against" / "fedavg", Shape(samples=200), "method.name=fedavg",
             opinion=False)  # fmt: skip
    run, rival = read_runs([tmp_path / "a"])
    worse = replace(rival, rounds=[{**line, "test_accuracy": 0.5} for line in rival.rounds])
    said = words(run, run, worse)
    assert f"good: Accuracy ends at {run.accuracy['mean_last10']:.1%}" in said
    assert "points above fedavg in its last 7." in said
    assert "good: The filter finds 9" in said
    assert "no opinion on single labels" in words(worse, run)
    assert "points below feddiv" in words(worse, run)


def curve_of(*accuracies: float, warmup: int = 0) -> list[dict[str, object]]:
    """Lines of rounds."""
    return [
        {"round": place, "stage": "train" if place > warmup else "warmup", "test_accuracy": value}
        for place, value in enumerate(accuracies, start=1)
    ]


def test_as_many_rounds_of_every_run_are_compared(run: RunRecord) -> None:
    # All of FedAvg's rounds count, the first too: its own mean would be 0.5.
    main = replace(run, rounds=curve_of(*[0.2] * 6, 0.6, 0.7, warmup=6))
    rival = replace(main, label="fedavg", rounds=curve_of(*[0.4] * 6, 0.8, 0.8))
    said = words(main, main, rival)
    assert (
        "bad: Accuracy ends at 65.0%, the mean of the last 2 rounds, 15.0 points below fedavg"
        " in its last 2." in said
    )
    page = report_page([main, rival])
    assert "mean of the last 2 rounds" in page
    assert "last ten" not in page
    assert '<td class="number">80.0%</td>' in page
    legend = draw_picture([main, rival]).axes[0].get_legend()
    assert legend.get_title().get_text() == "mean of the last 2 rounds"
    assert [each.get_text() for each in legend.get_texts()] == ["feddiv, 65.0%", "fedavg, 80.0%"]


def test_ten_rounds_are_averaged_where_all_have_them(run: RunRecord) -> None:
    main = replace(run, rounds=curve_of(0.1, *[0.7] * 10, warmup=1))
    rival = replace(main, label="fedavg", rounds=curve_of(*[0.1] * 5, *[0.6] * 10))
    said = words(main, main, rival)
    assert "70.0%, the mean of the last ten rounds, 10.0 points above fedavg." in said
    begun = replace(main, label="fedcorr", rounds=curve_of(0.1, warmup=1))  # none of its counts
    assert "the mean of the last ten rounds" in words(main, main, rival, begun)


def test_what_experts_got_wrong_themselves_is_said(run: RunRecord) -> None:
    counts = {"confirmed": 3, "corrected": 2, "wrong_before": 0.4, "wrong_after": 0.2}
    summary = {**run.summary, "corrections": {**counts, "wrong_trusted": 2}}
    assert "20.0% are now. Of the experts' own labels 2 are wrong." in words(
        replace(run, summary=summary)
    )
    unknown = {**run.summary, "corrections": {"confirmed": 3, "corrected": 2}}
    assert "experts' own" not in words(replace(run, summary=unknown))


@pytest.mark.parametrize(
    ("accuracies", "said"),
    [
        ([0.3, *[0.9] * 5, *[0.6] * 10], "It was 90.0% in round 3 and has fallen since."),
        ([0.3, *[0.6, 0.8] * 6], "It swings by 20 points within the last 10 measured rounds."),
        ([0.3, *(0.5 + 0.03 * step for step in range(12))], "It still rises, by 27.0 points"),
    ],
)
def test_what_is_said_of_a_curve(run: RunRecord, accuracies: list[float], said: str) -> None:
    rounds = [
        {"round": place + 2, "stage": "train" if place else "warmup", "test_accuracy": value}
        for place, value in enumerate(accuracies)
    ]
    assert said in words(replace(run, summary={}, rounds=rounds))


def test_nothing_bad_is_said_of_a_curve_that_has_settled(run: RunRecord) -> None:
    rounds = [{"round": place, "stage": "train", "test_accuracy": 0.9} for place in range(20)]
    assert "bad" not in words(replace(run, summary={}, rounds=rounds, visits=Visits()))


def test_models_that_pointed_against_the_others_are_said(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "a")
    with (folder / "clients.jsonl").open("a") as file:
        for what in ("left_out", "turned_back", "turned_back"):
            file.write(f'{{"round": 9, "client": 3, "kind": "train", "{what}": "why"}}\n')
        file.write('{"round": 0, "stage": "hello", "client": 3, "left_out": "a feature"}\n')
        file.write('{"round": 1, "client": 3, "missing": "late", "introduction": true}\n')
    said = words(*read_runs([folder]))
    assert "Of the clients' models 1 did not count and 2 counted turned back" in said
    assert "did not come" not in said


def test_what_is_said_of_a_run_that_went_astray(tmp_path: Path) -> None:
    folder = made_run(tmp_path / "a", ended=False)
    with (folder / "clients.jsonl").open("a") as file:
        file.write('{"round": 9, "client": 3, "kind": "train", "refused": "net: not finite"}\n')
    (run,) = read_runs([folder])
    said = words(run)
    assert "point against the others" not in said
    assert "bad: The run has not ended: 8 of 8 rounds" in said
    assert "client 3, round 9: net: not finite" in said
    (folder / "rounds.jsonl").unlink()
    assert "bad: The run has not ended: 0 of 8 rounds" in words(*read_runs([folder]))
