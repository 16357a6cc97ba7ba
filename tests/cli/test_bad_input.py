"""A user's error: exit code 2, one line on stderr that names it, and no trace on disk."""

import numpy as np
import pytest

import feddiv

NET = """
import torch

def seven_wide(input_shape, classes):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(7))
"""


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (["nonsense=1"], "nonsense is an unknown key"),
        (["train.speed=1"], "train.speed is an unknown key; allowed here: epochs"),
        (["method.filter.colour=1"], "method.filter.colour is an unknown key"),
        (["data.augment.zoom=1"], "data.augment.zoom is an unknown key; allowed here: pad"),
        (["rounds=many"], "rounds='many'"),
        (["rounds=1.5"], "rounds=1.5"),
        (["rounds=0"], "rounds=0"),
        (["clients=5"], "clients=5"),
        (["noise.rho=1.5"], "noise.rho=1.5"),
        (["noise.rho=-0.1"], "noise.rho=-0.1"),
        (["noise.rho=nan"], "noise.rho=nan"),
        (["noise.rho.x=1"], "rho is a value, not a section"),
        (["clients.count=5000"], "clients=5000"),
        (["data.images=5000"], "data.images=5000"),
        (["data.test_images=5000"], "data.test_images=5000"),
        (["warmup.iterations=17"], "warmup.iterations=17"),
        (["method.name=magic"], "'magic' is unknown; there are feddiv, fedavg"),
        (["method.variant=magic"], "'magic' is unknown"),
        (["partition.name=[1]"], "partition.name=[1] is unknown"),
        (["noise.name=brown"], "noise.name='brown' is unknown"),
        (["data.source=minst"], "data.source=minst"),
        (["model.name=vgg"], "model.name='vgg' is no net"),
        (["model.name=no.such.module:net"], "cannot be imported"),
        (["against=['fedmagic']"], "'fedmagic' is unknown"),
        (["against=['fedavg-magic']"], "against: 'fedavg-magic' is unknown (did you mean "),
        (["against=['feddiv:paper']"], "against: 'feddiv:paper' is spelt with a dash"),
        (["method.name=feddiv:paper"], "method.name: 'feddiv:paper' is spelt with a dash"),
        (["method.name=feddiv-magic"], "'feddiv-magic' is unknown (did you mean 'feddiv"),
        (["method.name=feddiv-paper", "method.variant=release"], "contradict each other"),
        (["against=['feddiv', 'feddiv-plus']"], "'feddiv-plus' is named twice"),
        (["method.name=fedcorr", "warmup.iterations=0"], "warmup.iterations=0: fedcorr needs 1"),
        (["against=['fedcorr']", "warmup.iterations=0"], "warmup.iterations=0: fedcorr needs 1"),
        (["method.name=fedprox", "method.mu=0"], "method.mu=0"),
        (["method.name=jointopt", "method.labels_after=1.0"], "method.labels_after=1.0"),
        (["against=['fedavg', 'fedavg']"], "'fedavg' is named twice"),
        (["method.filter.scale=minmax"], "starved_below"),
        (["method.filter.scale=minmax", "method.filter.starved_below=0.0"], "no_noise_rule"),
        (["rounds=3", "forty"], "'forty' is not key=value"),
        (["=3"], "'=3' is not key=value"),
        (["nothing-of-that-name"], "'nothing-of-that-name' is no file and no preset"),
        (["missing.toml"], "missing.toml"),
        (["--out"], "--out"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_bad_settings(refused, settings, named):
    assert named in refused("run", *settings)


@pytest.mark.parametrize("content", [b"rounds = ", b"\xff\xfe\x00", b"rounds = 5\nrounds = 6"])
def test_a_config_file_that_is_not_toml(refused, tmp_path, content):
    (tmp_path / "mine.toml").write_bytes(content)
    assert "mine.toml is not TOML" in refused("run", "mine.toml")


def test_missing_data_file(refused):
    assert "gone.npz: there is no such file" in refused(
        "run", "data.source=npz", "data.path=gone.npz"
    )


def test_data_file_left_out(refused):
    assert "data.path has to name" in refused("run", "data.source=npz")


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 but no more of it"])
def test_corrupt_data_file(refused, tmp_path, content):
    (tmp_path / "bad.npz").write_bytes(content)
    assert "bad.npz" in refused("run", "data.source=npz", "data.path=bad.npz")


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"x": np.zeros((0, 8, 8), np.uint8), "y": np.zeros(0, np.int64)},
        {"x": np.zeros((4, 8, 8), np.uint8)},
        {"x": np.full((4, 3), np.nan), "y": np.array([0, 1, 0, 1])},
    ],
)
def test_data_file_without_samples(refused, tmp_path, arrays):
    np.savez(tmp_path / "bad.npz", **arrays)
    assert "bad.npz" in refused("run", "data.source=npz", "data.path=bad.npz")


@pytest.mark.slow
def test_draw_of_other_data(refused, finished):
    assert "draw" in refused("run", f"data.draw={finished.folder / 'draw.npz'}", "data.images=100")


def test_folder_that_holds_a_run(refused, finished, tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.toml").write_text("seed = 1")
    assert "already holds a run" in refused("run", "--out", "old")


def test_folder_that_holds_the_run_of_a_rival(refused, tmp_path):
    (tmp_path / "old" / "against" / "fedavg").mkdir(parents=True)
    (tmp_path / "old" / "against" / "fedavg" / "rounds.jsonl").write_text("")
    assert "already holds a run" in refused("run", "--out", "old")


def test_folder_that_is_a_file(refused, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is a file" in refused("run", "--out", "file")
    assert "cannot be written" in refused("run", "--out", "file/below")


def test_net_of_the_wrong_width(refused, tmp_path, monkeypatch):
    (tmp_path / "wrong_width.py").write_text(NET)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    line = refused("run", "model.name=wrong_width:seven_wide")
    assert "7 outputs" in line
    assert "10 classes" in line


def test_show_refuses_what_run_refuses(refused):
    assert "noise.rho=2" in refused("show", "noise.rho=2")


def test_list_of_something_else(refused):
    assert "methods" in refused("list", "flavours")


def test_a_command_that_there_is_not(refused):
    assert "launch" in refused("launch")


def test_predict_without_a_model(refused, tmp_path):
    assert "there is no model" in refused("predict", "nowhere", "--data", "x.npz")
    (tmp_path / "model.safetensors").write_bytes(b"not that")
    assert "cannot be read" in refused("predict", tmp_path, "--data", "x.npz")


def test_a_run_refused_after_it_began_is_taken_back(refused, tmp_path, monkeypatch):
    def begin_and_refuse(prepared, folder, listener, carrier):
        raise feddiv.UserError("impossible after all")

    monkeypatch.setattr("feddiv.runs.start_and_resume.execute", begin_and_refuse)
    assert "impossible after all" in refused("run", "--out", "new/deep")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    refused("run", "--out", "mine")


def test_an_error_stands_alone_also_where_a_setting_leaves_out_others(refused):
    line = refused("run", "noise.name=open_set", "noise.rho=1")
    assert "noise.source has to name the other data set" in line
