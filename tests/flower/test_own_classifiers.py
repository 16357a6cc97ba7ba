"""Audits over Flower of sites that bring their own classifiers: only filter statistics travel."""

import csv

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from tests.flower.grids import LocalGrid
from tests.flower.own_data import CLASSES, site_folder, sites_grid
from tests.flower.trial import served

import feddiv
from feddiv.core.errors import TooFew, UserError
from feddiv.data.corrections import Decision, DecisionKind, append
from feddiv.flower import client_app
from feddiv.flower.clientapp import site_of
from feddiv.flower.serverapp import experiment_of
from feddiv.flower.site_predictions import KEPT

pytestmark = pytest.mark.slow

AUDIT = (
    "method.name=feddiv-audit rounds=1 warmup.iterations=0 model.name=predictions "
    "federation.least=1 evaluation.every=1"
)


@pytest.fixture(scope="module")
def fitted():
    """A classifier that knows other digits than the sites have: its probabilities of any digit."""
    images, labels = load_digits(return_X_y=True)
    known = np.flatnonzero(labels < len(CLASSES))[300:]
    model = LogisticRegression(C=0.01, max_iter=500).fit(images[known], labels[known])
    return {f"{i:04d}.png": row for i, row in enumerate(model.predict_proba(images))}


def names_of(folder):
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*.png"))


def write_csv(file, folder, fitted, classes=CLASSES, label=False):
    """The classes in another order than the run's, the samples in another than the folder's."""
    order = list(reversed(classes))
    with file.open("w", newline="") as opened:
        table = csv.writer(opened)
        table.writerow(["sample", *(["label"] if label else []), *order])
        for name in reversed(names_of(folder)):
            values = dict(zip(classes, fitted[name.split("/")[1]], strict=True))
            given = [name.split("/")[0]] if label else []
            table.writerow([name, *given, *(f"{values[each]:.8f}" for each in order)])
    return file


def audit(folder, name):
    with (folder / name / "state" / "labels.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def grid_of(deployment, own, names=("a", "b"), **keys):
    grid, config = sites_grid(deployment, names, settings=AUDIT, **keys)
    for node, more in zip(grid.nodes.values(), own, strict=True):
        node.update(more)
    for node in grid.nodes.values():
        if node.get("data-path") is None:
            del node["data-path"]
    return grid, config


@pytest.fixture
def files(deployment, fitted):
    """What sites a and b bring: a table for a folder of images, and a file that is enough alone."""
    table = write_csv(deployment / "a.csv", deployment / "a" / "images", fitted)
    names = names_of(deployment / "b" / "images")
    archive = deployment / "b.npz"
    np.savez(
        archive,
        probabilities=np.stack([fitted[name.split("/")[1]] for name in names]),
        labels=np.array([name.split("/")[0] for name in names]),
        classes=np.array(CLASSES),
        samples=np.array(names),
    )
    return table, archive


def test_sites_with_files_of_probabilities_find_the_same_as_in_process(deployment, files, fitted):
    grid, config = grid_of(
        deployment,
        [{"probabilities": str(files[0])}, {"probabilities": str(files[1]), "data-path": None}],
    )
    run = served(grid, config)
    kinds = [kind for _, kind in grid.log]
    assert kinds.count("bias") == kinds.count("filter") == 2  # one pass
    assert run.summary["bytes_up"] < 2 * 1500
    together = feddiv.audit(
        probabilities=[
            np.stack([fitted[name.split("/")[1]] for name in names_of(deployment / s / "images")])
            for s in "ab"
        ],
        labels=[
            np.array([n.split("/")[0] for n in names_of(deployment / s / "images")]) for s in "ab"
        ],
        classes=CLASSES,
    )
    for name, expected in zip("ab", together, strict=True):
        names = names_of(deployment / name / "images")
        found = {row["sample"]: row for row in audit(deployment, name)}
        assert sorted(found) == names
        quality = [float(found[each]["label_quality"]) for each in names]
        assert np.allclose(quality, expected.judged.quality, atol=2e-4)
        issues = [found[each]["is_label_issue"] == "True" for each in names]
        assert issues == expected.is_label_issue.tolist()
    wrong = {row["sample"] for row in audit(deployment, "a")[:6]}  # six lie in the wrong folder
    swapped = [int(name.split("/")[1][:4]) for name in wrong]
    truth = load_digits().target
    given = [CLASSES.index(name.split("/")[0]) for name in wrong]
    assert all(truth[i] != label for i, label in zip(swapped, given, strict=True))
    page = (deployment / "a" / "state" / "labels.html").read_text()
    assert "data:image/" in page  # images of its own folder
    assert not (deployment / "a" / "state" / "audit.csv").exists()


def test_a_model_of_its_own_may_have_its_classes_in_another_order(deployment, files, monkeypatch):
    site_folder(deployment / "before", range(200, 500))
    settings = {
        "data.path": str(deployment / "before"),
        "data.size": 8,
        "data.channels": 1,
        "clients.count": 2,
        "model.name": "mlp",
        "rounds": 3,
        "method.name": "fedavg",
        "warmup.iterations": 0,
        "train.lr": 0.05,
    }
    before = feddiv.run(
        None, {"data.source": "folder", **settings}, out=deployment / "model", workers=0
    )
    assert before.summary["classes"] == sorted(CLASSES)
    passes = []
    from feddiv.runs.model import TrainedModel

    whole = TrainedModel.logits
    monkeypatch.setattr(
        TrainedModel, "logits", lambda self, samples: passes.append(1) or whole(self, samples)
    )
    grid, config = grid_of(
        deployment, [{"classifier": str(before.folder)}, {"probabilities": str(files[1])}]
    )
    served(grid, config)
    assert len(passes) == 1  # however many messages there were
    rows = audit(deployment, "a")
    assert len(rows) == 60
    agree = [row["given_label"] == row["predicted_label"] for row in rows]
    assert sum(agree) > 40


def own_net():
    """Says what it is given: its samples are logits already."""
    net = torch.nn.Linear(4, 4, bias=False)
    torch.nn.init.eye_(net.weight)
    return net


def test_an_app_of_somebodys_own_brings_its_net(deployment, fitted):
    def data(context):
        folder = deployment / context.node_config["who"] / "images"
        names = names_of(folder)
        logits = np.log(np.stack([fitted[name.split("/")[1]] for name in names]))
        labels = [CLASSES.index(name.split("/")[0]) for name in names]
        return torch.utils.data.TensorDataset(
            torch.from_numpy(logits).float(), torch.tensor(labels)
        )

    app = client_app(
        model=own_net, data=data, site_path=lambda c: deployment / c.node_config["who"] / "state"
    )
    config = {
        "config": str(deployment / "experiment.toml"),
        "out": str(deployment / "run"),
        "settings": AUDIT,
    }
    nodes = {5: {"who": "a"}, 6: {"who": "b"}}
    served(LocalGrid(app, nodes, config, keys={5: b"a", 6: b"b"}), config)
    assert len(audit(deployment, "a")) == 60


def test_a_torch_net_by_its_import_path_takes_what_the_run_describes(deployment, files):
    grid, config = grid_of(
        deployment,
        [
            {"classifier": "tests.flower.nets:small"},
            {"probabilities": str(files[1])},
        ],
    )
    served(grid, config)
    assert len(audit(deployment, "a")) == 60


def broken(file, change):
    """A site's .npz file with something changed."""
    with np.load(file) as opened:
        arrays = dict(opened)
    change(arrays)
    np.savez(file, **{name: array for name, array in arrays.items() if array is not None})


BAD = {
    "wrong shape": (
        lambda a: a.update(probabilities=a["probabilities"][:, 0]),
        "one row for each sample and one column for each class are needed",
    ),
    "too few columns": (
        lambda a: a.update(probabilities=np.full((50, 3), 1 / 3), classes=None, labels=None),
        "3 columns of probabilities for 4 classes",
    ),
    "no probabilities": (
        lambda a: a.update(probabilities=a["probabilities"] * 3),
        "row 0 holds no probabilities",
    ),
    "not a number": (
        lambda a: a["probabilities"].__setitem__((7, 0), np.nan),
        "row 7 holds no probabilities",
    ),
    "other number of rows": (
        lambda a: a.update({key: a[key][:-1] for key in ("probabilities", "labels", "samples")}),
        "49 rows, none of them for sample",
    ),
    "unknown class": (
        lambda a: a.update(classes=np.array(["zero", "one", "dog", "three"]), labels=None),
        "class 'dog' is none of the run's",
    ),
    "other labels": (
        lambda a: a.update(labels=np.roll(a["labels"], 20)),
        "are these the same samples?",
    ),
    "no names": (
        lambda a: a.update(samples=None),
        "does not say which sample a row is of",
    ),
    "a sample twice": (
        lambda a: a["samples"].__setitem__(1, str(a["samples"][0])),
        "is there more than once",
    ),
}


def held(deployment, **own):
    """What site b brings to the run, by what its node config says."""
    grid, config = sites_grid(deployment, settings=AUDIT)
    node = {**grid.nodes[6], **own}
    site = site_of(node, {})
    experiment = experiment_of(config)
    return site.own.load(experiment, 0, site.holdings, deployment / "kept")


def test_a_file_that_is_right_is_the_sites_samples(deployment, files):
    loaded = held(deployment, probabilities=str(files[1]))
    assert loaded.dataset.input_shape == (4,)
    assert len(loaded.draw.parts[0]) == 50


def test_corrections_are_labels_of_sites_with_their_own_classifiers_too(deployment, files):
    name = names_of(deployment / "b" / "images")[0]
    given = name.split("/")[0]
    other = next(each for each in CLASSES if each != given)
    file = deployment / "corrections.csv"
    time = "2026-01-02T03:04:05Z"
    append(file, [Decision(name, given, DecisionKind.CORRECT, other, "ann", time)])
    loaded = held(deployment, probabilities=str(files[1]), corrections=str(file))
    trusted = np.flatnonzero(loaded.draw.trusted)
    assert [loaded.shown.name_of(row) for row in trusted] == [name]
    assert CLASSES[loaded.draw.given[trusted[0]]] == other


def test_a_classifier_judges_again_if_the_samples_are_others(deployment):
    """As many of them as before, so that nothing but their names tells."""
    net = {"classifier": "tests.flower.nets:small"}
    held(deployment, **net)
    kept = deployment / "kept" / KEPT
    written = kept.stat().st_mtime_ns
    held(deployment, **net)
    assert kept.stat().st_mtime_ns == written
    images = deployment / "b" / "images"
    first = images / names_of(images)[0]
    first.rename(first.with_name("9999.png"))  # the last of its class now
    held(deployment, **net)
    assert kept.stat().st_mtime_ns != written


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_one_line(deployment, files, kind):
    change, said = BAD[kind]
    broken(files[1], change)
    with pytest.raises(UserError) as problem:
        held(deployment, probabilities=str(files[1]))
    assert said in str(problem.value)
    assert str(files[1]) in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({}, "has not said what its own classifier says"),
        ({"probabilities": "nowhere.npz"}, "probabilities nowhere.npz: there is no such file"),
        ({"probabilities": "a.txt"}, "probabilities a.txt: is no file of .npz"),
        ({"classifier": "nowhere"}, "there is no model"),
        ({"classifier": "x", "probabilities": "y"}, "give one of them"),
        ({"classifier": "tests.flower.nets:nothing"}, "tests.flower.nets"),
    ],
)
def test_a_site_that_brings_nothing_is_told(deployment, own, said):
    with pytest.raises(UserError) as problem:
        held(deployment, **own)
    assert said in str(problem.value)


def test_a_site_with_a_bad_file_stays_out_and_the_others_go_on(deployment, files, capsys):
    change, said = BAD["unknown class"]
    broken(files[1], change)
    own = [{"probabilities": str(files[0])}, {"probabilities": str(files[1])}]
    grid, config = grid_of(deployment, own)
    run = served(grid, config)
    told = capsys.readouterr().out.splitlines()
    assert len([line for line in told if said in line]) == 1
    assert [line for line in told if line.startswith("feddiv: b: ")] == [
        "feddiv: b: has a class that is none of the run's: its log names it; the run's are "
        "zero, one, two, three"
    ]
    assert len(audit(deployment, "a")) == 60
    assert not (deployment / "b" / "state" / "labels.csv").exists()
    with pytest.raises(UserError, match="the sites brought their own predictions"):
        feddiv.load(run.folder)


def test_without_least_a_run_waits_for_all_its_sites(deployment, files, monkeypatch):
    grid, config = grid_of(deployment, [{"probabilities": str(files[0])}, {}])
    config["settings"] = AUDIT.replace("federation.least=1", "")
    with pytest.raises(TooFew, match="1 of 2 sites are there"):
        served(grid, config)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("method.name=fedavg", "no parameters that could be trained"),
        ("data.standardise=clients", "goes with data.standardise=source"),
        ("data.source=digits", "goes with data.source=sites"),
    ],
)
def test_predictions_are_for_audits_of_sites(deployment, settings, said):
    grid, config = sites_grid(deployment, settings=f"model.name=predictions rounds=2 {settings}")
    with pytest.raises(UserError, match=said):
        served(grid, config)
