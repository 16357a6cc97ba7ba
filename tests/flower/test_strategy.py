"""Our methods in somebody's own Flower app: their net, their data, Flower's Strategy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from examples.own_method.small_loss import SmallLoss
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord, RecordDict
from tests.flower.grids import LocalGrid
from tests.flower.trial import lines
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import feddiv
from feddiv.core.errors import TooFew, UserError
from feddiv.flower import Strategy, client_app

pytestmark = pytest.mark.slow  # whole runs or processes

CLASSES = 3
SETTINGS = {"train.epochs": 1, "warmup.iterations": 1, "federation.wait": 0.01}


def net() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, CLASSES))


def initial(seed: int = 0) -> ArrayRecord:
    torch.manual_seed(seed)
    return ArrayRecord(net().state_dict())


def data(context: Context) -> Dataset[Any]:
    """Normalised "images" [2, 4] without channels, far outside 0 to 1."""
    chance = torch.Generator().manual_seed(int(context.node_config["partition-id"]))
    labels = torch.randint(0, CLASSES, (30,), generator=chance)
    inputs = torch.randn(30, 2, 4, generator=chance) * 0.3
    inputs[:, 0, :CLASSES] += 3.0 * nn.functional.one_hot(labels, CLASSES)
    return TensorDataset(inputs, labels)


def grid_of(
    folder: Path, source: Callable[[Context], Any] = data, count: int = 3, **kwargs: Any
) -> LocalGrid:
    app = client_app(model=net, data=source, site_path=folder, **kwargs)
    return LocalGrid(app, {20 - place: {"partition-id": place} for place in range(count)})


def strategy(method: Any = "feddiv", **kwargs: Any) -> Strategy:
    settings = {**SETTINGS, **kwargs.pop("settings", {})}
    usual: dict[str, Any] = {"classes": CLASSES, "input_shape": (2, 4), "sites": 3}
    return Strategy(method, model=net, settings=settings, **{**usual, **kwargs})


def same(one: ArrayRecord, other: ArrayRecord) -> bool:
    pairs = zip(one.to_numpy_ndarrays(), other.to_numpy_ndarrays(), strict=True)
    return all(np.array_equal(*pair) for pair in pairs)


@pytest.mark.parametrize("method", ["feddiv", "fedavg", "fedcorr", "dividemix", "feddiv-paper"])
def test_start_trains_and_tells_by_round(method: str, tmp_path: Path) -> None:
    seen: list[tuple[int, ArrayRecord]] = []

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        net().load_state_dict(arrays.to_torch_state_dict())
        seen.append((number, arrays))
        return MetricRecord({"number": number})

    result = strategy(method).start(
        grid_of(tmp_path), initial(), num_rounds=6, evaluate_fn=evaluate
    )

    turns = len(seen) - 1
    assert [number for number, _ in seen] == list(range(turns + 1))
    assert same(seen[0][1], initial())
    assert same(seen[-1][1], result.arrays)
    assert not same(result.arrays, initial())
    assert result.evaluate_metrics_serverapp == {
        number: MetricRecord({"number": number}) for number in range(turns + 1)
    }
    assert sorted(result.train_metrics_clientapp) == list(range(1, turns + 1))
    assert result.train_metrics_clientapp[turns]["bytes_up"] > 0
    assert list(result.evaluate_metrics_clientapp) == [turns]
    assert result.evaluate_metrics_clientapp[turns]["held_out_accuracy"] > 0.25
    assert (tmp_path / "2" / "labels.csv").is_file()


def test_a_method_of_the_apps_own_runs_where_its_clients_have_it(tmp_path: Path) -> None:
    path = "examples.own_method.small_loss:SmallLoss"
    result = strategy(SmallLoss, out=tmp_path / "run").start(
        grid_of(tmp_path / "sites", method=SmallLoss), initial(), num_rounds=2
    )
    assert result.train_metrics_clientapp[2]["visits"] == 3
    assert feddiv.load_experiment(tmp_path / "run" / "config.toml").method.name == path
    with pytest.raises(TooFew, match="runs no method from a module that it has not allowed"):
        strategy(path).start(grid_of(tmp_path / "others"), initial(), num_rounds=1)
    grid = grid_of(tmp_path / "others")
    for node in grid.nodes.values():
        node["allow-method"] = path
    strategy(path).start(grid, initial(), num_rounds=1)


def test_without_evaluate_fn_clients_evaluate_every_round(tmp_path: Path) -> None:
    result = strategy("fedavg").start(grid_of(tmp_path), initial(), num_rounds=2)

    assert list(result.evaluate_metrics_clientapp) == [1, 2]
    assert result.evaluate_metrics_serverapp == {}


def test_starts_from_the_given_weights_and_gives_the_same_bits_again(tmp_path: Path) -> None:
    def trained(name: str, seed: int) -> ArrayRecord:
        return strategy("fedavg").start(grid_of(tmp_path / name), initial(seed), 1).arrays

    first = trained("a", 0)

    assert same(first, trained("b", 0))
    assert not same(first, trained("c", 1))


def test_nodes_with_keys_keep_their_partitions_and_are_numbered_by_the_server(
    tmp_path: Path,
) -> None:
    grid = grid_of(tmp_path)
    grid.keys = {20 - place: f"key {place}".encode() for place in range(3)}
    grid.nodes[18]["partition-id"] = 10**12  # a number of their own app's, not of a client
    result = strategy("fedavg", out=tmp_path / "run").start(grid, initial(), num_rounds=2)

    assert result.train_metrics_clientapp[2]["visits"] == 3
    visited = {line["client"] for line in lines(tmp_path / "run" / "clients.jsonl")}
    assert visited == {0, 1, 2}
    assert sorted(path.parent.name for path in tmp_path.glob("*/labels.csv")) == [
        "0",
        "1",
        f"{10**12}",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["feddiv", "dividemix"])
def test_a_stopped_run_goes_on_to_the_same_bits(method: str, tmp_path: Path) -> None:
    settings = {"checkpoint.seconds": 0.0, "evaluation.every": 1}
    whole = strategy(method, settings=settings).start(grid_of(tmp_path / "a"), initial(), 5)
    grid, out = grid_of(tmp_path / "b"), tmp_path / "run"

    def stop(node: int, message: Any, reply: Any) -> Any:
        if int(message.content["task"]["round"]) == 4:
            raise KeyboardInterrupt
        return reply

    grid.meddle = stop
    with pytest.raises(KeyboardInterrupt):
        strategy(method, settings=settings, out=out).start(grid, initial(), 5)
    seen: list[int] = []

    def evaluate(number: int, arrays: ArrayRecord) -> None:
        seen.append(number)

    def resumed(**other: Any) -> Any:
        again = strategy(method, settings={**settings, **other}, out=out, resume=True)
        return again.start(grid_of(tmp_path / "b"), initial(9), 5, evaluate_fn=evaluate)

    with pytest.raises(UserError, match=r"^train.lr=0.5: the run in .* was begun with 0.0"):
        resumed(**{"train.lr": 0.5})
    with pytest.raises(UserError, match=r"^initial_arrays: 1.bias has the shape None"):
        strategy(method, settings=settings, out=out, resume=True).start(grid, ArrayRecord({}), 5)
    for evaluated in ([4, 5], [4, 5]):  # the second time it is finished
        result = resumed()
        assert same(result.arrays, whole.arrays)
        assert sorted(result.train_metrics_clientapp) == [1, 2, 3, 4, 5]
        assert result.evaluate_metrics_clientapp == whole.evaluate_metrics_clientapp
        assert seen == evaluated
    with pytest.raises(UserError, match=r"^initial_arrays: 1.bias has the shape None"):
        strategy(method, settings=settings, out=out, resume=True).start(grid, ArrayRecord({}), 5)


def test_a_run_that_had_no_checkpoint_begins_again_with_its_own_weights(tmp_path: Path) -> None:
    whole = strategy().start(grid_of(tmp_path / "a"), initial(1), 3)
    grid, out = grid_of(tmp_path / "b"), tmp_path / "run"

    def stop(node: int, message: Any, reply: Any) -> Any:
        raise KeyboardInterrupt

    grid.meddle, usual = stop, grid.meddle
    with pytest.raises(KeyboardInterrupt):
        strategy(out=out).start(grid, initial(1), 3)
    grid.meddle = usual
    seen: list[tuple[int, ArrayRecord]] = []

    def evaluate(number: int, arrays: ArrayRecord) -> None:
        seen.append((number, arrays))

    again = strategy(out=out, resume=True, settings={"evaluation.every": 1})
    result = again.start(grid, initial(9), 3, evaluate_fn=evaluate, timeout=7)
    assert same(result.arrays, whole.arrays)
    assert [number for number, _ in seen] == [0, 1, 2, 3]
    assert same(seen[0][1], initial(1))


def test_two_nodes_that_share_a_folder_keep_their_memories_apart(tmp_path: Path) -> None:
    def trained(name: str, partitions: tuple[int, int]) -> ArrayRecord:
        grid = grid_of(tmp_path / name, lambda context: data(apart[context.node_id]), count=2)
        grid.keys = {20: b"one", 19: b"other"}
        for node, partition in zip((20, 19), partitions, strict=True):
            grid.nodes[node]["partition-id"] = partition
        return strategy("fedrn", sites=2).start(grid, initial(), 4).arrays

    apart = {20 - n: Context(1, 0, {"partition-id": n}, RecordDict(), {}) for n in range(2)}
    assert same(trained("shared", (0, 0)), trained("own", (0, 1)))


def test_to_go_on_a_run_has_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^resume=True: out= has to name the folder"):
        strategy(resume=True)
    with pytest.raises(UserError, match=r"holds no run that was begun \(config.toml is missing"):
        strategy(out=tmp_path / "none", resume=True).start(grid_of(tmp_path), initial())


def test_one_round_of_fedavg_is_that_of_plain_sgd(tmp_path: Path) -> None:
    """One client, one batch of all its samples: a step that can be done by hand."""
    settings = {
        "train.batch": 24,
        "train.lr": 0.1,
        "train.momentum": 0.0,
        "train.weight_decay": 0.0,
    }
    given = {**settings, "evaluation.share": 0.2}
    out = tmp_path / "run"
    result = strategy("fedavg", sites=1, settings=given, out=out).start(
        grid_of(tmp_path / "sites", count=1), initial(), 1
    )

    sites = list((tmp_path / "sites" / "0").glob("labels.csv"))
    rows = [int(line.split(",")[0]) for line in sites[0].read_text().splitlines()[1:]]
    assert len(rows) == 30
    rows = rows[:24]  # those that are kept out of training come last
    inputs, labels = data(Context(1, 0, {"partition-id": 0}, None, {})).tensors  # type: ignore[attr-defined, arg-type]
    model = net()
    model.load_state_dict(initial().to_torch_state_dict())
    nn.functional.cross_entropy(model(inputs[rows]), labels[rows]).backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.data -= 0.1 * parameter.grad
    for key, value in result.arrays.to_torch_state_dict().items():
        torch.testing.assert_close(value, model.state_dict()[key])
    card = feddiv.runs.model.load_tensors(out / "model.safetensors")[1]  # type: ignore[attr-defined]
    assert '"as_they_are": true' in card["feddiv"]


def test_a_loader_stands_for_its_data_set(tmp_path: Path) -> None:
    def loader(context: Context) -> DataLoader[Any]:
        return DataLoader(data(context), batch_size=4, shuffle=True)

    from_loader = strategy().start(grid_of(tmp_path / "a", loader), initial(), 3)
    from_data = strategy().start(grid_of(tmp_path / "b"), initial(), 3)

    assert same(from_loader.arrays, from_data.arrays)


def test_a_transform_changes_training_only_and_draws_from_the_seed(tmp_path: Path) -> None:
    def mirrored(sample: Tensor) -> Tensor:
        return sample.flip(1) if torch.rand(()) < 0.5 else sample

    def trained(name: str, **kwargs: Any) -> ArrayRecord:
        return strategy("fedavg").start(grid_of(tmp_path / name, **kwargs), initial(), 1).arrays

    plain, one = trained("a"), trained("b", train_transform=mirrored)
    torch.manual_seed(99)
    again = trained("c", train_transform=mirrored)

    assert not same(plain, one)
    assert same(one, again)
    # A transform that would spoil every prediction leaves the audit's view alone.
    trained("d", train_transform=lambda sample: sample * 0)
    assert (tmp_path / "d" / "0" / "labels.csv").is_file()


class Passing(IterableDataset[Any]):
    def __iter__(self) -> Any:
        yield torch.zeros(2, 4), 0


class Shaky(Dataset[Any]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, number: int) -> Any:
        return torch.rand(2, 4), number % CLASSES


def labelled(*labels: Any) -> list[Any]:
    return [(torch.full((2, 4), float(number)), label) for number, label in enumerate(labels)]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (Passing(), "a Passing is read in passing; give a data set whose items have numbers"),
        (DataLoader(Passing()), "a Passing is read in passing"),
        (Shaky(), "not the same when it is read again"),
        (labelled(0, 1, 7), "holds label 7, allowed are 0..2"),
        (labelled("0", "cat"), "'cat', which is not in classes"),
        ([(torch.zeros(3, 4), 0)], "samples have the shape (3, 4), those of the run (2, 4)"),
        ([(torch.zeros(2, 4, dtype=torch.uint8), 0)], "a torch.uint8 Tensor; give what the net"),
        ([(torch.full((2, 4), torch.nan), 0)], "not finite"),
        ([{"img": 1}], "has no 'label'"),
    ],
)
def test_data_that_cannot_be_used_is_refused_in_one_line(
    source: Any, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = grid_of(tmp_path, lambda context: source)

    with pytest.raises(TooFew, match="its data cannot be used: its log says why") as error:
        strategy().start(grid, initial(), 3)

    assert "\n" not in str(error.value)
    lines = [line for line in capsys.readouterr().out.splitlines() if said in line]
    assert lines  # in the node's own log


def test_a_transform_that_changes_the_shape_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = grid_of(tmp_path, train_transform=lambda sample: sample[0])

    with pytest.raises(TooFew, match="its data cannot be used"):
        strategy().start(grid, initial(), 3)
    assert "train_transform gives samples of shape (4,)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"train_config": ConfigRecord({"lr": 0.1})}, "train_config: clients are told by"),
        ({"evaluate_config": ConfigRecord({"a": 1})}, "evaluate_config: clients are told by"),
    ],
)
def test_configs_that_nobody_would_read_are_refused(kwargs: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        strategy().start(grid_of(tmp_path), initial(), 3, **kwargs)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rounds": 9}, "rounds=9: it is 3 here"),
        ({"against": ["fedavg"]}, "against="),
        ({"train.speed": 1}, "train.speed is an unknown key"),
        ({"data.mean": [0.5]}, "data.mean="),
        ({"evaluation.name": "central"}, "no test samples"),
    ],
)
def test_bad_settings_are_refused_and_nothing_is_written(
    settings: Any, said: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(UserError) as error:
        strategy(settings=settings, out=out).start(grid_of(tmp_path), initial(), 3)

    assert said in str(error.value)
    assert not out.exists()


def test_weights_of_another_net_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    other = ArrayRecord(nn.Linear(8, CLASSES).state_dict())

    with pytest.raises(UserError, match=r"initial_arrays: 1\.bias has the shape None"):
        strategy(out=out).start(grid_of(tmp_path), other, 3)

    assert not out.exists()


def test_what_the_loop_replaces_says_so() -> None:
    ours = strategy()
    for name in ("configure_train", "aggregate_train", "configure_evaluate", "aggregate_evaluate"):
        with pytest.raises(UserError, match=rf"{name}: .* call start\(\)"):
            getattr(ours, name)(1, [])


def test_the_client_app_needs_all_of_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="data= is missing"):
        client_app(model=net)
    with pytest.raises(UserError, match="model= is missing"):
        client_app(site_path=tmp_path)
    app = client_app(model=net, data=data)
    with pytest.raises(TooFew, match="site_path= has to name the folder"):
        strategy(sites=1).start(LocalGrid(app, {1: {"partition-id": 0}}), initial(), 3)
