"""Data that say whose a sample is: their clients are kept, or a line says that they are not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.pictures import Listener, picture

import feddiv
from feddiv.config.experiment import to_toml
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.runs.prepare import prepare
from feddiv.runs.start_and_resume import Watcher, as_begun

QUICK = {"rounds": 2, "train.epochs": 1, "warmup.iterations": 1, "model.name": "mlp"}


def table(path: Path, clients: tuple[str, ...] = ("north", "south"), rows: int = 20) -> Path:
    """`rows` rows of each client; the first feature tells the class, the second the client."""
    rng = np.random.default_rng(1)
    lines = ["label,client,a,b"] if clients else ["label,a,b"]
    for number, client in enumerate(clients or ("",)):
        for row in range(rows):
            named = f",{client}" if clients else ""
            label = row % 2
            lines.append(f"{'ab'[label]}{named},{label + rng.normal(0, 0.1):.3f},{number}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def hospitals(tmp_path: Path) -> dict[str, Any]:
    return {"data.source": "table", "data.path": str(table(tmp_path / "list.csv"))} | QUICK


def holders(experiment: feddiv.Experiment, listener: Listener | None = None) -> list[set[float]]:
    """Whose samples each client of the draw holds."""
    prepared = prepare(experiment, watcher=listener)
    inputs = prepared.dataset.train.inputs.numpy()
    return [set(inputs[part, 1].tolist()) for part in prepared.draw.parts]


def test_a_client_column_is_kept_unasked(hospitals: dict[str, Any]) -> None:
    listener = Listener()
    experiment = load_experiment("own", hospitals)
    assert holders(experiment, listener) == [{0.0}, {1.0}]
    said = listener.said("clients are")
    assert said.startswith("clients are the 2 that the data name (north, south)")
    assert 'name = "auto"' in to_toml(experiment), "show does not know the data"
    bare = load_experiment(None, {**hospitals, "clients.fraction": 1.0})
    assert holders(bare) == [{0.0}, {1.0}], "nor without a preset"


def test_client_folders_are_kept_unasked(tmp_path: Path) -> None:
    for client, red in (("north", 10), ("south", 200)):
        for name in "ab":
            for image in range(5):
                picture(tmp_path / "scans" / client / name / f"{image}.png", (red, 0, 0))
    settings = {
        "data.source": "folder",
        "data.path": str(tmp_path / "scans"),
        "data.layout": "client",
        "data.size": 8,
    }
    prepared = prepare(load_experiment("own", settings))
    reds = prepared.dataset.train.inputs[:, 4, 4, 0].numpy()
    assert [set(reds[part].tolist()) for part in prepared.draw.parts] == [{10}, {200}]
    assert prepared.draw.names == ("north", "south")


def test_data_without_clients_are_dealt_as_before(tmp_path: Path) -> None:
    source: dict[str, Any] = {"data.source": "table", "model.name": "mlp"}
    source["data.path"] = str(table(tmp_path / "list.csv", (), rows=40))
    own = prepare(load_experiment("own", source))
    dealt = prepare(load_experiment("own", {**source, "partition.name": "iid"}))
    assert len(own.draw.parts) == 5
    assert own.draw.hash == dealt.draw.hash
    assert own.draw.recipe == dealt.draw.recipe
    assert own.experiment == dealt.experiment
    assert len(prepare(load_experiment(None, source)).draw.parts) == 10
    eight = load_experiment("own", {**source, "clients.count": 8})
    assert len(prepare(eight).draw.parts) == 8


def test_another_partition_that_was_chosen_is_used_and_said_aloud(
    hospitals: dict[str, Any],
) -> None:
    listener = Listener()
    chosen = {**hospitals, "partition.name": "iid", "clients.count": 3}
    assert holders(load_experiment("own", chosen), listener) == [{0.0, 1.0}] * 3
    assert listener.said("NOT") == (
        "partition.name=iid: clients are NOT the 2 that the data name (north, south), their "
        "samples are mixed; partition.name=natural keeps them"
    )
    preset = Listener()
    holders(load_experiment("quickstart", {**hospitals, "rounds": 5}), preset)
    assert preset.said("NOT")
    silent = Listener()
    holders(load_experiment("own", {**hospitals, "partition.name": "natural"}), silent)
    assert not [note for note in silent.notes if "clients are" in note]


def test_a_number_of_clients_that_the_data_do_not_have_is_refused(
    hospitals: dict[str, Any],
) -> None:
    with pytest.raises(UserError, match=r"clients\.count=3: table has 2 clients .*name=iid"):
        prepare(load_experiment("own", {**hospitals, "clients.count": 3}))
    assert len(prepare(load_experiment("own", {**hospitals, "clients.count": 2})).draw.parts) == 2


def test_small_clients_are_left_out_where_asked(tmp_path: Path) -> None:
    path = table(tmp_path / "list.csv")
    path.write_text(path.read_text() + "a,west,0,2\n")
    settings = {"data.source": "table", "data.path": str(path), "evaluation.name": "held_out"}
    settings["model.name"] = "mlp"
    with pytest.raises(UserError, match=r"'west' has 1.*set partition\.small=drop"):
        prepare(load_experiment("own", settings))
    kept = prepare(load_experiment("own", {**settings, "partition.small": "drop"}))
    assert kept.draw.names == ("north", "south")


def test_the_config_of_a_run_says_what_was_used_and_its_draw_serves_again(
    hospitals: dict[str, Any], tmp_path: Path
) -> None:
    settings = {**hospitals, "against": ["fedprox"]}
    run = feddiv.run("own", settings, out=tmp_path / "run", workers=0)
    for folder in (run.folder, run.folder / "against" / "fedprox"):
        config = load_experiment(folder / "config.toml")
        assert (config.partition.name, config.clients.count) == ("natural", None)
    again = {**hospitals, "data.draw": str(run.folder / "draw.npz"), "against": []}
    second = feddiv.run("own", again, out=tmp_path / "second", workers=0)
    assert second.summary["model_hash"] == run.summary["model_hash"]
    made_so = load_experiment("own", {**again, "partition.name": "iid", "clients.count": 2})
    with pytest.raises(UserError, match=r"made with partition\.name=natural, it is iid here"):
        prepare(made_so)


def test_a_stopped_run_goes_on_with_the_same_clients(
    hospitals: dict[str, Any], tmp_path: Path
) -> None:
    class Stop(Watcher, Listener):
        def round(self, line: dict[str, Any]) -> None:
            raise KeyboardInterrupt

    run = feddiv.run("own", {**hospitals, "against": []}, out=tmp_path / "run", workers=0)
    stop = Stop()
    with pytest.raises(KeyboardInterrupt):
        feddiv.run(
            "own", {**hospitals, "against": []}, out=tmp_path / "cut", workers=0, watcher=stop
        )
    assert stop.said("clients are the 2")
    resumed = feddiv.resume(tmp_path / "cut", workers=0)
    assert resumed.summary["model_hash"] == run.summary["model_hash"]


def test_who_asks_for_the_same_experiment_again_need_not_name_the_partition(
    hospitals: dict[str, Any], tmp_path: Path
) -> None:
    """As a server does that goes on with a run by the settings that it was begun with."""
    wanted = load_experiment("own", hospitals)
    begun = prepare(wanted).experiment
    assert as_begun(begun, wanted, tmp_path).partition == begun.partition
    other = load_experiment("own", {**hospitals, "partition.name": "iid"})
    with pytest.raises(UserError, match="was begun with"):
        as_begun(begun, other, tmp_path)


def test_two_hospitals_of_which_one_takes_part_in_a_round(
    hospitals: dict[str, Any], tmp_path: Path
) -> None:
    class Notes(Watcher, Listener):
        """Both."""

    notes = Notes()
    settings = {"clients.fraction": 0.5, "evaluation.name": "held_out", "against": []}
    run = feddiv.run(
        "own",
        {**hospitals, **settings, "rounds": 4},
        out=tmp_path / "run",
        workers=0,
        watcher=notes,
    )
    assert notes.said("clients.fraction=0.5 of 2 clients is one in a round")
    assert run.summary["held_out_samples"] == 8, "a fifth of both, whoever trains"
    lines = [json.loads(line) for line in (run.folder / "clients.jsonl").read_text().splitlines()]
    rounds = [[each["client"] for each in lines if each["turn"] == turn] for turn in (1, 2, 3)]
    assert [sorted(rounds[0]), len(rounds[2])] == [[0, 1], 1], "warm-up visits both"
    assert all(line["held_out_samples"] == 8 for line in run.rounds)
    both = Listener()
    prepare(load_experiment("own", hospitals), watcher=both)
    assert not [note for note in both.notes if "fraction" in note]


def test_data_that_stay_at_their_sites_have_these_as_clients() -> None:
    settings = {
        "data.source": "sites",
        "data.classes": ["a", "b"],
        "data.features": 2,
        "evaluation.name": "held_out",
        "model.name": "mlp",
    }
    settled = prepare(load_experiment(None, settings)).experiment
    assert (settled.partition.name, settled.clients.count) == ("natural", None)
