"""What experts at a site decided counts in its runs, and stays there."""

import pytest

pytest.importorskip("flwr")

from tests.flower.own_data import CLASSES, audit, sites_grid
from tests.flower.trial import served

from feddiv.core.errors import TooFew, UserError
from feddiv.data.corrections import Decision, DecisionKind, append

pytestmark = pytest.mark.slow


def test_a_site_trusts_what_its_experts_decided(deployment, capfd):
    """Its file stays with it; a file of other data keeps it out, and the server learns no name."""
    first, *_ = sorted((deployment / "a" / "images").rglob("*.png"))
    name = first.relative_to(deployment / "a" / "images").as_posix()
    given = name.partition("/")[0]
    other = next(each for each in CLASSES if each != given)
    file = deployment / "a" / "corrections.csv"
    row = Decision(name, given, DecisionKind.CORRECT, other, "ann", "2026-01-02T03:04:05Z")
    append(file, [row])
    grid, config = sites_grid(deployment)
    next(iter(grid.nodes.values()))["corrections"] = str(file)
    served(grid, config)
    [listed] = [row for row in audit(deployment, "a") if row["sample"] == name]
    assert listed["given_label"] == other
    assert (float(listed["label_quality"]), listed["action"]) == (1.0, "keep")
    assert "samples, 1 of them by experts" in capfd.readouterr().out


def test_what_is_decided_while_a_run_goes_on_counts_in_the_next(deployment):
    """Else the counts of two messages would tell the server what was decided about a sample."""
    from feddiv.review.decisions import Decisions
    from feddiv.review.opening import reviewable

    state = deployment / "a" / "state"
    images = deployment / "a" / "images"
    first, second, *_ = sorted(
        file.relative_to(images).as_posix() for file in images.rglob("*.png")
    )
    time = "2026-01-02T03:04:05Z"
    given, other = CLASSES[1], CLASSES[3]
    assert first.startswith(given)
    assert second.startswith(given)
    file = state / "corrections.csv"
    state.mkdir()
    append(file, [Decision(first, given, DecisionKind.CORRECT, other, "ann", time)])
    answers = []

    def decide(node, message, reply):
        answers.append(node)
        if len(answers) == 6:
            append(file, [Decision(second, given, DecisionKind.CORRECT, other, "ann", time)])
        return reply

    def listed():
        return {row["sample"]: row["given_label"] for row in audit(deployment, "a")}

    grid, config = sites_grid(deployment)
    grid.nodes[5]["corrections"] = str(file)
    grid.meddle = decide
    served(grid, config)
    assert len(answers) > 6
    assert (listed()[first], listed()[second]) == (other, given)
    grid, config = sites_grid(deployment, out=str(deployment / "next"))
    grid.nodes[5]["corrections"] = str(state)  # the folder: what runs have kept is none of it
    served(grid, config)
    assert (listed()[first], listed()[second]) == (other, other)
    [site] = reviewable(state)
    assert len(Decisions(site.open(), "ann").news()["states"]) == 2


def test_corrections_of_other_data_keep_a_site_out(deployment, capfd):
    file = deployment / "a" / "corrections.csv"
    row = Decision("secret.png", CLASSES[0], DecisionKind.SKIP, "", "ann", "2026-01-02T03:04:05Z")
    append(file, [row])
    grid, config = sites_grid(deployment)
    next(iter(grid.nodes.values()))["corrections"] = str(file)
    with pytest.raises((TooFew, UserError)) as problem:
        served(grid, config)
    assert "secret" not in str(problem.value)
    assert "sample 'secret.png': the data have no such sample" in capfd.readouterr().out


def test_the_server_of_sites_has_no_corrections(deployment):
    file = deployment / "experiment.toml"
    file.write_text(file.read_text().replace('"sites",', '"sites", corrections = ["c.csv"],'))
    grid, config = sites_grid(deployment)
    with pytest.raises(UserError, match="each site names its own file by corrections="):
        served(grid, config)
