"""`feddiv sweep`, `table` and `reproduce` as commands: what they print, and what they refuse."""

from pathlib import Path

import pytest

MINE = """
settings = ["quickstart"]
methods = ["fedavg"]
seeds = [0]
[options]
rounds = 3
warmup.iterations = 1
data.images = 160
clients.count = 4
train.epochs = 1
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    return file


def test_a_plan_is_printed_and_nothing_written(command, mine: Path, tmp_path: Path) -> None:
    outcome = command("sweep", mine, "--dry-run", "--jobs", 1)
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == [
        "mine: 1 settings × 1 methods × 1 seeds, 1 runs, 0 finished, 1 left",
        "no finished run to judge the time by, 1 at a time, in sweeps/mine",
        "  feddiv run quickstart rounds=3 warmup.iterations=1 data.images=160 clients.count=4 "
        "train.epochs=1 method.name=fedavg seed=0 'against=[]'",
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["mine.toml"]


@pytest.mark.slow
def test_a_sweep_then_its_table_then_what_fails(command, mine: Path, tmp_path: Path) -> None:
    outcome = command("sweep", mine)
    assert outcome.code == 0, outcome.err
    assert outcome.out == "Rows       sweeps/mine/rows.jsonl\n"
    assert "1/1 quickstart, fedavg, seed 0  best " in outcome.err
    shown = command("table", "sweeps/mine")
    assert shown.code == 0
    assert "| quickstart | fedavg | 0 |" in shown.out
    runs = command("table", "sweeps/mine/runs")
    assert "| digits, iid, symmetric rho=0.8 tau=0.5 | fedavg | 0 |" in runs.out
    mine.write_text(MINE.replace('"quickstart"', '"cifar10-laptop"'))
    failed = command("sweep", mine, "--quiet")
    assert failed.code == 1
    assert failed.err.splitlines()[0] == "feddiv: 1 of the runs failed:"
    assert "cifar10-laptop, fedavg, seed 0: " in failed.err


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("fedavg", "fedagv", "'fedagv' is unknown (did you mean 'fedavg'?)"),
        ("seeds", "seedz", "seedz is an unknown key (did you mean 'seeds'?)"),
        ("rounds", "roundz", "roundz is an unknown key (did you mean rounds?)"),
        ("quickstart", "quickstrat", "did you mean 'quickstart'?"),
        ("[0]", "0", "seeds=0"),
        ("=", "", "is not TOML"),
    ],
)
def test_a_mistake_in_the_file(refused, mine: Path, old: str, new: str, said: str) -> None:
    mine.write_text(MINE.replace(old, new, 1))
    assert said in refused("sweep", mine)


def test_other_mistakes(refused, mine: Path, tmp_path: Path) -> None:
    assert "nowhere.toml: No such file" in refused("sweep", "nowhere.toml")
    assert "--out" in refused("sweep", mine, "--out", mine)
    assert "there is no such file or folder" in refused("table", "nowhere")
    assert "did you mean 'latex'" in refused("table", mine, "--format", "latx")
    assert "mine.toml, line " in refused("table", mine)
    assert "'table9' is unknown" in refused("reproduce", "table9")
    assert "--scale huge: unknown" in refused("reproduce", "table1", "--scale", "huge")
    assert "'fedx' is unknown" in refused("reproduce", "table1", "--methods", "fedavg,fedx")
    assert "--cells iid: no cell of table1" in refused("reproduce", "table1", "--cells", "iid")
    assert "keep='all'" in refused("reproduce", "table1", "--keep", "all")
    said = refused("reproduce", "table3", "--scale", "laptop")
    assert "table3 cannot be shown at --scale laptop: " in said


def test_the_papers_plan_has_its_cost(command) -> None:
    outcome = command("reproduce", "table4", "--scale", "paper", "--dry-run", "--methods", "fedavg")
    assert outcome.code == 0, outcome.err
    assert "2 settings × 1 methods × 5 seeds, 10 runs, 0 finished, 10 left" in outcome.out
    assert "resnet50: 0.1 billion images to train on" in outcome.out
    assert "hours of one GPU" in outcome.out


def test_what_a_scale_cannot_show_is_said(command) -> None:
    outcome = command("reproduce", "table4", "--scale", "tiny", "--dry-run")
    assert "Clothing1M is not shown at scale tiny: digits have no wrong labels" in outcome.err
