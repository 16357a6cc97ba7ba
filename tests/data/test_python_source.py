"""Torch data sets that are brought along in Python."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

import feddiv
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data import DataOptions, load_dataset
from feddiv.data.sources.python import brought
from feddiv.runs.start_and_resume import Watcher

DOCS = Path(__file__).resolve().parents[2] / "docs" / "data.md"
PIXELS = np.arange(2 * 4 * 3, dtype=np.uint8).reshape(2, 4, 3) * 10


class Listed(Dataset[Any]):
    """Items as they are."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, number: int) -> Any:
        return self.items[number]


def stored(sample: Any) -> np.ndarray:
    """What becomes of a sample."""
    dataset = brought([Listed((sample, 0), (sample, 1))], None, None)
    assert dataset is not None
    return dataset.train.inputs[1].numpy()


@pytest.mark.parametrize(
    "sample",
    [
        PIXELS,
        torch.from_numpy(PIXELS),
        torch.from_numpy(PIXELS).permute(2, 0, 1),
        torch.from_numpy(PIXELS).permute(2, 0, 1) / 255,
        (PIXELS / 255).astype(np.float16),
        Image.fromarray(PIXELS),
        Image.fromarray(PIXELS).convert("RGBA"),
    ],
    ids=["array", "tensor", "channels first", "float", "half", "Pillow", "with alpha"],
)
def test_images_of_all_kinds_become_the_same_pixels(sample: Any) -> None:
    assert np.array_equal(stored(sample), PIXELS)


def test_where_both_ends_may_be_channels_tensors_have_them_first() -> None:
    square = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)
    assert np.array_equal(stored(square), square)
    assert np.array_equal(stored(torch.from_numpy(square)), square.transpose(1, 2, 0))


def test_grey_images_and_vectors() -> None:
    assert stored(PIXELS[..., 0]).shape == (2, 4, 1)
    assert stored(Image.fromarray(PIXELS[..., 0])).shape == (2, 4, 1)
    vector = stored(torch.tensor([0.5, 7.0], dtype=torch.float64))
    assert vector.dtype == np.float32
    assert vector.tolist() == [0.5, 7.0]


def test_clients_and_names_are_kept_in_order() -> None:
    one = torch.ones(3)
    clients = {"b": Listed((one, "cat"), (one, "ant")), "a": Listed((one, "cat"))}
    dataset = brought(clients, Listed((one, "dog")), None)
    assert dataset is not None
    assert dataset.clients == ("b", "a")
    assert dataset.holder is not None
    assert dataset.holder.tolist() == [0, 0, 1]
    assert dataset.classes == ("ant", "cat", "dog")
    assert dataset.train.labels.tolist() == [1, 0, 1]
    assert dataset.test.labels.tolist() == [2]
    numbered = brought([Listed((one, 0), (one, np.int64(1)))], None, ["no", "yes"])
    assert numbered is not None
    assert (numbered.clients, numbered.classes) == (("0",), ("no", "yes"))


class Failing(Listed):
    def __getitem__(self, number: int) -> Any:
        raise ValueError("no such\nfile")


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(())


ONE = torch.ones(3)


@pytest.mark.parametrize(
    ("clients", "reason"),
    [
        ([], "clients is empty"),
        (Listed((ONE, 0)), "clients is a Listed; give a list"),
        ([Listed()], "no items"),
        ([Endless()], "a Endless has no length"),
        ([Failing(1)], r"client '0', item 0 cannot be read \(ValueError: no such\)"),
        ([Listed(ONE)], "client '0', item 0 is a Tensor, not"),
        ([Listed((ONE, 0)), Listed((ONE, 1.5))], r"client '1', item 0 has the label 1\.5"),
        ([Listed((ONE, True))], "has the label True"),
        ([Listed((ONE, 0), (ONE, "cat"))], "numbers here and names there"),
        ([Listed((ONE, 0), (torch.ones(4), 1))], r"item 1 is float32 \[4\], where the first"),
        ([Listed((ONE * np.nan, 0))], "not finite"),
        ([Listed((torch.ones(3, dtype=torch.int64), 0))], r"is int64 \[3\]; give an image"),
        ([Listed((torch.ones(5, 4, 6), 0))], "an image has 1, 3 or 4 channels"),
        ([Listed((torch.ones(1, 4, 6) * -2, 0))], "pixels from -2 to 0; give them from 0 to 1"),
        ([Listed((Image.new("I;16", (3, 3)), 0))], "mode I;16; give 8 bits"),
        ([Listed(("gone.png", 0))], "item 0: gone.png cannot be read as an image"),
        ([Listed((7, 0))], "item 0 is a int; give a PIL image"),
        ([Listed((ONE, 0), (ONE, 9))], "label 9 is larger than the number of samples"),
        ([Listed((ONE, 0), (ONE, 1), (ONE, -1))], "holds label -1"),
    ],
)
def test_what_makes_no_data_is_one_line(clients: Any, reason: str) -> None:
    with pytest.raises(UserError, match=reason) as error:
        brought(clients, None, None)
    assert "\n" not in str(error.value)


def test_one_class_is_nothing_to_learn() -> None:
    data = brought([Listed((ONE, 0), (ONE, 0))], None, None)
    options = DataOptions(source="python")
    with pytest.raises(UserError, match="source=python: only one class, 0; at least 2 are needed"):
        load_dataset(options, Streams(0), with_test=False, brought=data)


def vectors(count: int, seed: int) -> TensorDataset:
    rng = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    inputs = torch.randn(count, 4, generator=rng) * 0.3
    inputs[torch.arange(count), labels] += 1
    return TensorDataset(inputs, labels)


CONFIG = {
    "rounds": 3,
    "method": {"name": "fedavg"},
    "model": {"name": "mlp"},
    "clients": {"fraction": 1.0},
}


@pytest.mark.slow
def test_a_run_resumes_with_the_data_brought_again(tmp_path: Path) -> None:
    clients, test = [vectors(30, 1), vectors(20, 2), vectors(40, 3)], vectors(12, 4)
    run = feddiv.run(CONFIG, clients=clients, test=test, out=tmp_path / "run", workers=0)
    assert run.experiment.data.source == "python"
    assert np.bincount(run.assessment["client"]).tolist() == [30, 20, 40]
    assert run.summary["last_test_accuracy"] > 0.5

    class Stop(Watcher):
        def round(self, line: dict[str, Any]) -> None:
            raise KeyboardInterrupt

    stopped = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        feddiv.run(CONFIG, clients=clients, test=test, out=stopped, workers=0, watcher=Stop())
    with pytest.raises(UserError, match="give them again"):
        feddiv.resume(stopped, workers=0)
    with pytest.raises(UserError, match="made for 90 training samples"):
        feddiv.resume(stopped, clients=clients[:2], test=test, workers=0)
    resumed = feddiv.resume(stopped, clients=clients, test=test, workers=2)
    assert resumed.summary["model_hash"] == run.summary["model_hash"]


@pytest.mark.slow
def test_without_a_test_set_clients_hold_out_unless_the_caller_says_otherwise(
    tmp_path: Path,
) -> None:
    clients = [vectors(30, 1), vectors(20, 2)]
    with pytest.raises(UserError, match="no test samples; evaluation"):
        feddiv.run(CONFIG, ["evaluation.name=central"], clients=clients, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    for name, settings in (("said", ["evaluation.name=held_out"]), ("left", [])):
        noise = [*settings, "noise.name=symmetric"]
        run = feddiv.run(CONFIG, noise, clients=clients, out=tmp_path / name, workers=0)
        assert run.summary["held_out_samples"] == 10
    assert run.experiment.evaluation.name == "held_out"


def test_what_contradicts_the_data_is_refused(tmp_path: Path) -> None:
    clients = [vectors(30, 1)]
    for overrides in (["partition.name=iid"], {"data.source": "digits"}):
        with pytest.raises(UserError, match="here; leave it out"):
            feddiv.run(CONFIG, overrides, clients=clients, out=tmp_path / "run")
    mine = tmp_path / "mine.toml"
    mine.write_text('[partition]\nname = "dirichlet"\n')
    for experiment, said in (
        ({**CONFIG, "partition": {"name": "iid"}}, "partition.name=iid: it is natural here"),
        ({**CONFIG, "data": {"source": "digits"}}, "data.source=digits: it is python here"),
        (mine, "partition.name=dirichlet: it is natural here; leave it out"),
        ({**CONFIG, "clients": {"count": 7}}, "clients.count=7: python has 1 clients"),
        ({**CONFIG, "data": 3}, "data is a value, not a section"),
    ):
        with pytest.raises(UserError, match=said):
            feddiv.run(experiment, clients=clients, test=clients[0], out=tmp_path / "run")
    with pytest.raises(UserError, match="clients=, which is missing"):
        feddiv.run(CONFIG, test=clients[0], out=tmp_path / "run")
    with pytest.raises(UserError, match="the data were given in Python"):
        feddiv.run(load_experiment(CONFIG, ["data.source=python"]), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_options_of_an_experiment_hold_for_data_that_are_brought(tmp_path: Path) -> None:
    def grey(count: int) -> list[dict[str, Any]]:
        levels = [(Image.new("L", (9, 9), 200 * (item % 2)), item % 2) for item in range(count)]
        return [{"pic": image, "what": label} for image, label in levels]

    data: dict[str, Any] = {"columns": {"image": "pic", "label": "what"}, "size": 4}
    data |= {"augment": {"flip": True}}
    tree = {**CONFIG, "rounds": 1, "clients": {"count": 2}, "data": data}
    toml = tmp_path / "mine.toml"
    toml.write_text(tomli_w.dumps(tree))
    on_top = {**tree, "base": "quickstart", "against": []}
    for number, experiment in enumerate((tree, on_top, toml)):
        run = feddiv.run(
            experiment,
            ["warmup.iterations=0"],
            clients=[grey(6), grey(8)],
            test=grey(4),
            out=tmp_path / str(number),
            workers=0,
        )
        options = run.experiment.data
        assert (options.source, options.size, options.columns.image) == ("python", 4, "pic")
        assert options.augment is not None
        assert options.augment.flip
        assert run.experiment.clients.fraction == 1
    assert tree["data"] == data, "the caller's own dict is left alone"
    assert "source" not in data


@pytest.mark.slow
def test_the_example_of_the_documentation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = DOCS.read_text(encoding="utf-8").split("## Your own clients, in Python")[1]
    example = re.search(r"```python\n(.*?)```", section, flags=re.S)
    assert example is not None
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    exec(example[1], scope)
    assert scope["run"].summary["last_test_accuracy"] > 0.8
    model = feddiv.load("runs/sites")
    assert model.classes[3] == "digit 3"
    said = dict(re.findall(r"(\w+) (\d+)% of the labels in doubt", capsys.readouterr().out))
    assert said.keys() == {"north", "east", "south"}
    assert int(said["north"]) > int(said["south"])


def test_two_clients_of_one_name_are_refused() -> None:
    one = Listed((PIXELS, 0), (PIXELS, 1))
    with pytest.raises(UserError, match="clients has the name '1' twice"):
        brought({1: one, "1": one}, None, None)  # type: ignore[dict-item]
