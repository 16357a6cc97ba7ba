import json
import re

import pytest

import feddiv
from feddiv.config.reading import load_experiment
from feddiv.data import NOISES, PARTITIONS, SOURCES
from feddiv.encoders.registry import ENCODERS
from feddiv.methods.registry import METHODS
from feddiv.nets import NETS
from feddiv.presets import presets


@pytest.mark.slow
def test_run_writes_a_folder_and_names_it(command, tiny, tmp_path):
    outcome = command("run", *tiny)
    assert outcome.code == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(r"quickstart-feddiv-seed0-\d{8}-\d{6}", folder.name)
    wanted = {"config.toml", "environment.json", "draw.npz", "rounds.jsonl", "clients.jsonl"}
    wanted |= {"model.safetensors", "best.safetensors", "summary.json", "assessment.npz"}
    assert wanted | {"picture.png", "report.html", "against", "checkpoint", "clients"} == {
        path.name for path in folder.iterdir()
    }
    assert str(folder.relative_to(tmp_path) / "picture.png") in outcome.out


@pytest.mark.slow
def test_run_compares_on_the_same_draw(command, tiny, tmp_path):
    outcome = command("run", *tiny, "against=['fedavg', 'feddiv-paper']", "--out", "mine")
    assert outcome.code == 0
    folders = [tmp_path / "mine", *(tmp_path / "mine" / "against").iterdir()]
    assert {folder.name for folder in folders} == {"mine", "fedavg", "feddiv-paper"}
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in folders]
    assert len({summary["draw"] for summary in summaries}) == 1
    for summary in summaries:
        assert f"{summary['mean_last10_test_accuracy']:.1%}" in outcome.out
    for name in ("feddiv", "fedavg", "feddiv-paper"):
        assert name in outcome.out


@pytest.mark.slow
def test_a_rival_equal_to_the_method_is_not_run_again(command, tiny, tmp_path):
    assert command("run", "method.name=fedavg", *tiny, "--out", "mine").code == 0
    assert not (tmp_path / "mine" / "against").exists()


@pytest.mark.slow
def test_plain_progress_has_a_line_for_each_round_on_stderr(command, tiny):
    outcome = command("run", *tiny, "against=[]", "--out", "mine")
    lines = outcome.err.splitlines()
    assert [line.split("  ")[1] for line in lines] == ["round 2 of 3", "round 3 of 3"]
    assert "filter F1" in lines[-1]
    assert "round 2" not in outcome.out


@pytest.mark.slow
def test_quiet_leaves_only_the_summary(command, tiny):
    outcome = command("run", *tiny, "--quiet", "--out", "mine")
    assert outcome.err == ""
    assert re.search(r"^ feddiv  ", outcome.out, re.MULTILINE)


def test_a_preset_wins_over_a_folder_of_its_name(command, tmp_path):
    (tmp_path / "quickstart").mkdir()
    assert command("show", "quickstart").code == 0


@pytest.mark.slow
def test_show_can_be_run(command, tiny, tmp_path):
    settings = [*tiny, "method.variant=release", "noise.tau=0.25", "data.augment.pad=2"]
    (tmp_path / "mine.toml").write_text(command("show", *settings).out)
    assert load_experiment(tmp_path / "mine.toml") == load_experiment("quickstart", settings)
    assert command("run", "mine.toml", "--out", "mine").code == 0
    saved = load_experiment(tmp_path / "mine" / "config.toml")
    assert saved == load_experiment("quickstart", settings)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("methods", METHODS),
        ("datasets", SOURCES),
        ("partitions", PARTITIONS),
        ("noise", NOISES),
        ("models", NETS),
        ("encoders", ENCODERS),
        ("presets", presets()),
    ],
)
def test_list_names_everything(command, kind, names):
    lines = command("list", kind).out.splitlines()
    assert set(names) <= {line.split("  ")[0] for line in lines}
    everything = command("list").out
    assert kind in everything.splitlines()
    assert all(f"  {name} " in everything for name in names)


def test_list_tells_papers_and_what_each_variant_is(command):
    out = command("list", "methods").out
    text = " ".join(out.split())
    for method in METHODS.values():
        assert method.paper in text
        assert all(variant.summary in text for variant in list(method.variants.values())[1:])
    names = {line.split("  ")[0] for line in out.splitlines()}
    assert {"feddiv", "feddiv-paper", "feddiv-release", "feddiv-degraded"} <= names
    assert {"feddiv-local-filter", "feddiv-no-pcs", "feddiv-no-relabel-no-pcs"} <= names
    assert {"feddiv-no-reg", "feddiv-perfect-filter", "fedavg-mixup", "jointopt-hard"} <= names
    assert "= feddiv-plus, " in text


def test_version_and_help(command):
    assert command("--version").out == f"feddiv {feddiv.__version__}\n"
    for arguments in ([], ["--help"]):
        outcome = command(*arguments)
        assert outcome.code == 0
        assert "predict" in outcome.out


@pytest.mark.slow
def test_python_gives_the_numbers_of_the_command_line(command, tiny, tmp_path):
    assert command("run", *tiny, "--out", "mine").code == 0
    settings = {"rounds": 3, "warmup.iterations": 1, "data.images": 200, "train.epochs": 1}
    run = feddiv.run("quickstart", settings, out=tmp_path / "python")
    summary = json.loads((tmp_path / "mine" / "summary.json").read_text())
    timeless = {key for key in summary if key != "seconds"}
    assert {key: run.summary[key] for key in timeless} == {key: summary[key] for key in timeless}
    assert run.column("test_accuracy").shape == (2,)  # one turn of warm-up, worth two rounds
    with pytest.raises(KeyError, match="test_accuracy"):
        run.column("no such thing")
    assert set(run.against) == {"fedavg"}


def test_everything_offered_in_python_is_there():
    for name in feddiv.__all__:
        assert getattr(feddiv, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        feddiv.nonsense  # noqa: B018


@pytest.mark.slow
def test_a_run_that_diverges_says_so_and_keeps_what_it_wrote(command, tiny, tmp_path) -> None:
    done = command(
        "run", *tiny, "method.name=fedavg", "train.lr=1e38", "--out", tmp_path / "x", "-q"
    )
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "training diverged" in done.err
    assert "divergence is not finite (4 more in clients.jsonl): try a smaller" in done.err
    assert (tmp_path / "x" / "clients.jsonl").exists()
    assert not (tmp_path / "x" / "summary.json").exists()


@pytest.mark.slow
def test_a_draw_brings_its_kind_of_partition_along(command, tmp_path) -> None:
    few = ["rounds=2", "warmup.iterations=0", "data.images=200", "train.epochs=1", "against=[]"]
    paper = [*few, "method.variant=paper", "-q"]
    skewed = ["partition.name=bernoulli_dirichlet", "partition.p=0.5"]
    assert command("run", *paper, *skewed, "--out", tmp_path / "a").code == 0
    again = [*paper, f"data.draw={tmp_path / 'a' / 'draw.npz'}", "--out", tmp_path / "b"]
    said = command("run", *again)  # partition.name=iid would be recorded, and be wrong
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "made with partition.name=bernoulli_dirichlet, it is iid here" in said.err
    assert command("run", *again, *skewed).code == 0
    one, other = ((tmp_path / name / "rounds.jsonl").read_text() for name in "ab")
    accuracy = [
        [json.loads(line)["test_loss"] for line in text.splitlines()] for text in (one, other)
    ]
    assert accuracy[0] == accuracy[1], "the prior regulariser is on for both"


@pytest.mark.slow
def test_a_warm_up_in_which_everybody_explodes_is_noticed(command, tiny, tmp_path):
    done = command("run", *tiny, "against=[]", "train.lr=1e30", "--out", tmp_path / "x", "-q")
    assert done.code == 1
    assert "training diverged: no reply of turn 1" in done.err


def test_the_folder_of_a_run_is_named(command, tiny, tmp_path):
    done = command("run", *tiny, "--out", "")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert not list(tmp_path.iterdir())
