"""Sites with data of their own: classes by name, a folder of their own, audits."""

import pytest

pytest.importorskip("flwr")

from tests.flower.own_data import CLASSES, audit, site_folder, sites_grid
from tests.flower.trial import lines, served

from feddiv.core.errors import TooFew, UserError
from feddiv.flower.seats import Seat, Seats

pytestmark = pytest.mark.slow


def test_sites_train_together_and_each_gets_its_audit(deployment):
    grid, config = sites_grid(deployment)
    run = served(grid, config)
    assert run.summary["last_held_out_accuracy"] > 0.5
    assert run.summary["classes"] == list(CLASSES)
    table = audit(deployment, "a")
    assert len(table) == 60  # also those that are kept out of training
    assert set(table[0]) == {
        "sample",
        "given_label",
        "predicted_label",
        "label_quality",
        "is_label_issue",
        "confidence",
        "action",
    }
    qualities = [float(row["label_quality"]) for row in table]
    issues = [row["is_label_issue"] == "True" for row in table]
    assert qualities == sorted(qualities)  # the worst first
    assert issues == sorted(issues, reverse=True)
    assert sum(issues) == pytest.approx(60 - sum(qualities), abs=1)  # as many as look wrong
    page = (deployment / "a" / "state" / "labels.html").read_text()
    assert "Labels of this site" in page
    for row in table:
        assert (deployment / "a" / "images" / row["sample"]).is_file()
        assert row["sample"].startswith(row["given_label"])
    assert {row["given_label"] for row in audit(deployment, "b")} == set(CLASSES[:3])
    assert {line["client"] for line in lines(deployment / "run" / "clients.jsonl")} == {0, 1}


def test_a_class_that_nobody_else_has_keeps_its_site_out(deployment, capsys):
    site_folder(deployment / "c" / "images", range(0, 20))
    (deployment / "c" / "images" / "three").rename(deployment / "c" / "images" / "dog")
    grid, config = sites_grid(deployment, ("a", "c"))
    with pytest.raises(TooFew, match=r"none of the run's: .* zero, one") as told:
        served(grid, config)
    assert "dog" not in str(told.value)  # a label is the site's own affair, and in its log
    assert "class 'dog' is none of the run's" in capsys.readouterr().out
    assert not (deployment / "run" / "summary.json").exists()
    grid, config = sites_grid(deployment, ("a", "b", "c"), out=str(deployment / "again"))
    served(grid, config)  # goes well without it
    assert "class 'dog' is none of the run's" in capsys.readouterr().out


def test_sites_of_one_name_are_told_apart():
    seats = Seats()
    for client, name in enumerate(["north", "south", "north"]):
        seats.by_key[str(client)] = Seat(client, str(client), name, 10)
    assert [seats.name(client) for client in (0, 1, 2, 3)] == [
        "north (client 0)",
        "south",
        "north (client 2)",
        "3",
    ]


def test_methods_are_not_compared_between_real_sites(deployment):
    config = (deployment / "experiment.toml").read_text()
    (deployment / "experiment.toml").write_text('against = ["fedavg"]\n' + config)
    grid, config = sites_grid(deployment)
    with pytest.raises(UserError, match=r"against=fedavg: data\.source=sites"):
        served(grid, config)


@pytest.mark.parametrize("place", [0.0, float("nan"), float("inf"), 1e12, 0.5])
def test_a_place_that_a_site_claims_counts_for_nothing(deployment, place):
    """With node keys a site is who its key says, whatever partition its node config names."""
    whole = served(*sites_grid(deployment)).summary["model_hash"]
    grid, config = sites_grid(deployment, out=str(deployment / "again"))

    def claims(node, message, reply):
        if node == 6 and message.content["task"]["kind"] == "hello":
            reply.content["metrics"]["place"] = place
        return reply

    grid.meddle = claims
    assert served(grid, config).summary["model_hash"] == whole


def test_every_run_keeps_its_audit_and_the_newest_lies_on_top(deployment):
    for name in ("first", "second"):
        grid, config = sites_grid(deployment, out=str(deployment / name))
        served(grid, config)
    state = deployment / "a" / "state"
    kept = [file.read_text() for file in state.glob("runs/*/*/labels.csv")]
    assert len(kept) == 2
    assert (state / "labels.csv").read_text() in kept


def test_sites_need_a_folder_for_the_run(deployment):
    grid, config = sites_grid(deployment, out="")
    with pytest.raises(UserError, match='out="…" has to name the folder'):
        served(grid, config)


def test_sites_that_share_a_classifier_audit_without_training(deployment):
    grid, config = sites_grid(deployment)
    served(grid, config)
    weights = deployment / "run" / "model.safetensors"
    (deployment / "a" / "state" / "labels.csv").unlink()
    wanted = f"method.name=feddiv-audit rounds=1 warmup.iterations=0 model.weights={weights}"
    grid, config = sites_grid(deployment, out=str(deployment / "audit"), settings=wanted)
    run = served(grid, config)
    assert run.summary["bytes_up"] < 20_000  # a few hundred numbers a site, and held-out counts
    assert len(audit(deployment, "a")) == 60
    assert (deployment / "a" / "state" / "labels.html").is_file()
