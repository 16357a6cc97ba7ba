"""Dicts, Hugging Face data sets, arrays and data frames, by client, in Python."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.data.pictures import BLUE, RED, Listener, picture

import feddiv
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data import DataOptions, Dataset, load_dataset
from feddiv.data.sources.python import brought

PIXELS = np.arange(2 * 4 * 3, dtype=np.uint8).reshape(2, 4, 3) * 10
PICTURE = Image.fromarray(PIXELS)
VECTORS = np.array([[0.5, 1.0], [1.5, 2.0], [2.5, 3.0]])


def taken(clients: Any, test: Any = None, classes: Any = None, **options: Any) -> Dataset:
    """What a run gets."""
    chosen = DataOptions.model_validate({"source": "python", **options})
    data = brought(clients, test, classes, chosen)
    return load_dataset(chosen, Streams(0), with_test=test is not None, brought=data)


def refused(clients: Any, test: Any = None, classes: Any = None, **options: Any) -> str:
    with pytest.raises(UserError) as error:
        taken(clients, test, classes, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


# Items that are dicts


@pytest.mark.parametrize(("sample", "label"), [("image", "label"), ("img", "labels")])
def test_items_may_be_dicts(sample: str, label: str) -> None:
    items = [{sample: PICTURE, label: number, "id": 7} for number in (0, 1)]
    dataset = taken([items], items)
    assert np.array_equal(dataset.train.inputs[0].numpy(), PIXELS)
    assert dataset.train.labels.tolist() == dataset.test.labels.tolist() == [0, 1]


def test_dicts_of_features_and_of_other_names() -> None:
    items = [{"features": [1, 2.5], "label": "b"}, {"features": [0, 1], "label": "a"}]
    assert taken([items]).train.inputs.tolist() == [[1, 2.5], [0, 1]]
    scans = [{"scan": PIXELS, "finding": finding} for finding in ("ill", "well")]
    columns = {"image": "scan", "label": "finding"}
    assert taken([scans], columns=columns).classes == ("ill", "well")
    said = refused({"north": scans})
    assert said.startswith("client 'north', item 0 has no 'image' or 'path'")
    assert said.endswith("only 'scan', 'finding'; set data.columns.image or .features")
    assert "has no 'label' or" in refused([[{"image": PIXELS, "finding": 0}]])
    assert refused([[{"text": "It leaks.", "label": 0}]]).endswith(
        "only 'text', 'label'; texts are taken from data frames: give data.to_pandas()"
    )


def test_images_of_many_sizes_are_taken_with_a_size(tmp_path: Path) -> None:
    red = picture(tmp_path / "red.png", RED, (30, 20))
    mixed = [(Image.new("L", (4, 4), 90), 0), (red, 1), (str(red), 1)]
    inputs = taken([mixed], size=6).train.inputs
    assert inputs.shape == (3, 6, 6, 3)
    assert inputs[:, 3, 3].tolist() == [[90, 90, 90], list(RED), list(RED)]
    assert taken([[(red, 0), (red, 1)]]).input_shape == (3, 64, 64)
    grey = taken([[(PICTURE, 0), (PICTURE, 1)]], channels=1)
    assert grey.input_shape == (1, 2, 4)
    assert "data.size resizes PIL images" in refused([[(PICTURE, 0), (PICTURE.resize((9, 9)), 1)]])
    arrays = [[(PIXELS, 0), (PIXELS, 1)]]
    assert refused(arrays, size=6).startswith("data.size=6: client '0', item 0 is an array")
    assert refused(arrays, channels=1).startswith("data.channels=1: client '0', item 0 is an")


def test_hugging_face_data_sets_bring_the_names_of_their_classes() -> None:
    datasets = pytest.importorskip("datasets", reason="no datasets, the extra vision")
    features = datasets.Features(
        {"img": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    )
    rows = {"img": [PICTURE, PICTURE, PICTURE], "label": [1, 0, 1]}
    whole = datasets.Dataset.from_dict(rows, features=features)
    dataset = taken({"a": whole.select([0, 1]), "b": whole.select([2])}, whole)
    assert dataset.classes == ("cat", "dog")
    assert dataset.train.labels.tolist() == [1, 0, 1]
    assert np.array_equal(dataset.train.inputs[2].numpy(), PIXELS)
    splits = datasets.DatasetDict(train=whole, test=whole)
    assert "names train, test, which are splits" in refused(splits)


# Arrays


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_arrays_of_vectors(kind: Any) -> None:
    clients = {"a": (kind(VECTORS), kind(np.array([0, 1, 1]))), "b": (kind(VECTORS[:1]), [2])}
    dataset = taken(clients, (kind(VECTORS[1:]), [1, 2]))
    assert dataset.train.inputs.tolist() == [*VECTORS.tolist(), VECTORS[0].tolist()]
    assert dataset.train.labels.tolist() == [0, 1, 1, 2]
    assert dataset.holder is not None
    assert dataset.holder.tolist() == [0, 0, 0, 1]
    assert dataset.test.labels.tolist() == [1, 2]


def test_arrays_of_images_and_of_whole_numbers() -> None:
    images = np.stack([PIXELS, PIXELS])
    assert np.array_equal(taken([(images, [0, 1])]).train.inputs.numpy(), images)
    first = torch.from_numpy(images).permute(0, 3, 1, 2) / 255
    assert np.array_equal(taken([(first, torch.tensor([0, 1]))]).train.inputs.numpy(), images)
    counts = taken([(np.array([[3, 4], [5, 6]]), ["a", "b"])])
    assert counts.train.inputs.dtype == torch.float32
    assert counts.train.inputs.tolist() == [[3, 4], [5, 6]]


def test_pairs_that_do_not_fit_are_named() -> None:
    said = refused({"north": (VECTORS, [0, 1])})
    assert said == "client 'north': X has 3 rows and y 2 labels"
    assert "y is float64 [3, 2]; give one label a row" in refused([(VECTORS, VECTORS)])
    assert "X is float64 [3]; give vectors" in refused([(VECTORS[:, 0], [0, 1, 2])])
    assert "clients is one pair (X, y); give a list" in refused((VECTORS, np.arange(3)))
    assert "client '0', item 1 has the label 0.5" in refused([(VECTORS, [0, 0.5, 1])])
    assert "test: X has 3 rows" in refused([(VECTORS, [0, 1, 2])], (VECTORS, [0]))
    assert refused([{"x": VECTORS}]).startswith("client '0' is a dict; give a torch data set")
    nothing: Any = [3]
    assert "client '0' is a int; give a torch data set" in refused(nothing)


# Data frames


@pytest.fixture
def pandas() -> Any:
    return pytest.importorskip("pandas")


def test_a_frame_for_each_site(pandas: Any) -> None:
    south = pandas.DataFrame({"a": [1, 2], "label": ["x", "y"], "b": [0.5, 0.25]})
    north = pandas.DataFrame({"b": [0.0], "a": [9], "label": ["x"]})
    test = pandas.DataFrame({"label": ["y"], "a": [7], "b": [1.0]})
    dataset = taken({"south": south, "north": north}, test)
    assert dataset.clients == ("south", "north"), "in the caller's order"
    assert dataset.holder is not None
    assert dataset.holder.tolist() == [0, 0, 1]
    assert dataset.columns == ("a", "b")
    assert dataset.train.inputs.tolist() == [[1, 0.5], [2, 0.25], [9, 0]]
    assert dataset.train.labels.tolist() == [0, 1, 0]
    assert dataset.test.inputs.tolist() == [[7, 1]]
    assert dataset.test.labels.tolist() == [1]
    assert taken([south, north]).clients == ("0", "1")
    pair = taken([(south[["a", "b"]], south["label"]), (north[["a", "b"]], north["label"])])
    assert pair.train.inputs.tolist() == dataset.train.inputs.tolist()


def test_one_frame_with_a_column_of_clients(pandas: Any) -> None:
    rows = {"a": [1, 2, 3, 4], "label": [1, 0, 1, 0], "client": ["n", "s", "s", "n"]}
    frame = pandas.DataFrame({**rows, "split": ["train", "train", "train", "test"]})
    assert taken(frame).clients == ("n", "s")
    tested = load_dataset(
        DataOptions(source="python"), Streams(0), brought=brought(frame, None, ["no", "yes"])
    )
    assert tested.test.inputs.tolist() == [[4]]
    assert tested.classes == ("no", "yes")
    assert tested.train.labels.tolist() == [1, 0, 1]
    renamed = frame.rename(columns={"client": "ward", "label": "sick"})
    columns = {"client": "ward", "label": "sick"}
    assert taken(renamed, columns=columns).clients == ("n", "s")
    assert "clients is one data frame without a column 'client'" in refused(
        frame.drop(columns="client")
    )


def test_frames_of_paths_and_of_lists(pandas: Any, tmp_path: Path) -> None:
    paths = [picture(tmp_path / f"{n}.png", colour) for n, colour in enumerate((RED, BLUE))]
    images = pandas.DataFrame({"image": [str(path) for path in paths], "label": ["r", "b"]})
    dataset = taken([images, images], size=8)
    assert dataset.train.inputs[:, 4, 4].tolist() == [list(RED), list(BLUE)] * 2
    lists = pandas.DataFrame({"embedding": [[1.0, 2.0], [3.0, 4.0]], "label": ["r", "b"]})
    assert taken([lists]).train.inputs.tolist() == [[1, 2], [3, 4]]
    uneven = pandas.DataFrame({"embedding": [[1.0, 2.0], [3.0]], "label": ["r", "b"]})
    said = refused({"north": uneven})
    assert said.startswith("client 'north', row 1: embedding is no list of as many numbers")


def test_what_is_wrong_with_a_frame_is_named(pandas: Any) -> None:
    good = pandas.DataFrame({"a": [1.0, 2.0], "label": ["x", "y"]})
    gap = pandas.DataFrame({"a": [1.0, None], "label": ["x", "y"]})
    assert (
        refused({"n": good, "s": gap}) == "client 's', row 1: a is missing or not finite in float32"
    )
    unlabelled = pandas.DataFrame({"a": [1.0, 2.0], "label": ["x", None]})
    assert refused({"n": good, "s": unlabelled}) == "client 's', row 1: label is missing"
    nullable = pandas.DataFrame({"a": [1.0, 2.0], "label": pandas.array([1, None], dtype="Int64")})
    assert refused({"s": nullable}) == "client 's', row 1: label is missing"
    wider = good.assign(b=1.0)
    assert refused({"n": good, "s": wider}) == (
        "client 'n': has no column 'b', which client 's' has; give all the same columns"
    )
    assert "set data.columns.label to one of a, sick" in refused(
        [good.rename(columns={"label": "sick"})]
    )
    assert "client 's' is a list and client 'n' a data frame" in refused({"n": good, "s": [(1, 2)]})
    assert "test is a tuple; give a data frame" in refused([good], (VECTORS, [0, 1, 1]))
    assert "data.columns.client=ward: is for data frames" in refused(
        [(VECTORS, [0, 1, 1])], columns={"client": "ward"}
    )
    text = pandas.DataFrame({"a": [1.0, "high"], "label": ["x", "y"]})
    assert refused([text], columns={"features": "a"}) == (
        "client '0', row 1: a is 'high', not a number"
    )


def test_nothing_is_imported_for_frames() -> None:
    """Whatever has columns and types and gives arrays is one."""

    class Plain:
        columns = ("a", "label")
        dtypes = ("float64", "int64")

        def __len__(self) -> int:
            return 2

        def __getitem__(self, name: str) -> np.ndarray:
            return {"a": np.array([0.5, 1.5]), "label": np.array([1, 0])}[name]

    assert taken([Plain(), Plain()]).train.inputs.tolist() == [[0.5], [1.5]] * 2


# Runs

QUICK = {"rounds": 2, "model.name": "mlp", "method.name": "fedavg", "against": []}


def sites(count: int = 4) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    labels = np.arange(20) % 2
    return [(rng.normal(labels[:, None], 0.1, (20, 3)), labels) for _ in range(count)]


def test_own_clients_all_take_part_unless_the_caller_says_otherwise(tmp_path: Path) -> None:
    def fraction(experiment: Any, settings: Any = QUICK) -> float:
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        run = feddiv.run(
            experiment, settings, clients=sites(), test=sites()[0], out=place, workers=0
        )
        visits = {line["visits"] for line in run.rounds}
        assert visits == {round(4 * run.experiment.clients.fraction)}
        return run.experiment.clients.fraction

    toml = tmp_path / "mine.toml"
    toml.write_text("[clients]\nfraction = 0.5\n")
    assert fraction(None) == 1
    assert fraction({}) == 1
    assert fraction("quickstart", {**QUICK, "warmup.iterations": 0}) == 1, "it has ten clients"
    assert fraction({}, [*(f"{key}={value}" for key, value in QUICK.items())]) == 1
    assert fraction({}, {**QUICK, "clients.fraction": 0.5}) == 0.5
    assert fraction({"clients": {"fraction": 0.5}}) == 0.5
    assert fraction(toml) == 0.5
    assert fraction(feddiv.load_experiment({}, {"clients.fraction": 0.25})) == 0.25


def test_own_data_start_from_the_preset_own(tmp_path: Path) -> None:
    settings = {**QUICK, "warmup.iterations": 0}
    run = feddiv.run(
        None, settings, clients=sites(), test=sites()[0], out=tmp_path / "a", workers=0
    )
    assert run.experiment.noise.name == "none", "no noise was put on somebody's own labels"
    np.savez(tmp_path / "own.npz", x=sites()[0][0].astype(np.float32), y=sites()[0][1])
    source = {"data.source": "npz", "data.path": str(tmp_path / "own.npz")}
    run = feddiv.run(overrides={**settings, **source}, out=tmp_path / "b", workers=0)
    assert run.experiment.noise.name == "none"


def test_frames_run_and_resume(pandas: Any, tmp_path: Path) -> None:
    def frame(pair: tuple[np.ndarray, np.ndarray]) -> Any:
        return pandas.DataFrame(pair[0], columns=["a", "b", "c"]).assign(sick=pair[1])

    class Stop(feddiv.Watcher, Listener):
        def round(self, line: dict[str, Any]) -> None:
            raise KeyboardInterrupt

    data = {"clients": [frame(pair) for pair in sites()], "test": frame(sites()[0])}
    settings = {**QUICK, "data.columns.label": "sick"}
    run = feddiv.run({}, settings, **data, out=tmp_path / "run", workers=0)
    stop = Stop()
    with pytest.raises(KeyboardInterrupt):
        feddiv.run({}, settings, **data, out=tmp_path / "cut", workers=0, watcher=stop)
    assert stop.said("features are 3 of the data frame's columns (a, b, c)")
    resumed = feddiv.resume(tmp_path / "cut", **data, workers=0)
    assert resumed.summary["model_hash"] == run.summary["model_hash"]
    arrays = feddiv.run({}, QUICK, clients=sites(), test=sites()[0], out=tmp_path / "xy", workers=0)
    assert arrays.summary["model_hash"] == run.summary["model_hash"]
