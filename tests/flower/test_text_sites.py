"""Sites that encode their own texts at home, by the encoder whose weights the server names."""

import csv

import pytest

pytest.importorskip("flwr")

from tests.encoders.words import graph, tokenizer
from tests.flower.own_data import sites_grid
from tests.flower.trial import served

from feddiv.core.errors import TooFew
from feddiv.encoders.onnx_session import OnnxGraph
from feddiv.flower.serverapp import experiment_of
from feddiv.flower.site_data import OwnData

pytestmark = pytest.mark.slow

WORDS = {"low": "one", "high": "three"}


@pytest.fixture
def deployment(tmp_path):
    """Two sites with texts of two words; the encoder's features are the words' numbers."""
    for site in ("a", "b"):
        for label, word in WORDS.items():
            folder = tmp_path / site / "images" / label
            folder.mkdir(parents=True)
            for number in range(15):
                (folder / f"{number}.txt").write_text(f"{word} two")
        (tmp_path / site / "encoder").mkdir()
        tokenizer(tmp_path / site / "encoder")
        graph(tmp_path / site / "encoder" / "net.onnx")
    (tmp_path / "experiment.toml").write_text(
        f"""
rounds = 3
clients = {{ fraction = 1.0 }}
partition = {{ name = "natural" }}
model = {{ name = "mlp" }}
train = {{ epochs = 4, lr = 0.1 }}
warmup = {{ iterations = 1 }}
evaluation = {{ name = "held_out" }}
federation = {{ name = "flower", sites = 2, wait = 0.5 }}
[data]
source = "sites"
classes = ["low", "high"]
encoder = {str(tmp_path / "a" / "encoder" / "net.onnx")!r}
mean = [3.0, 30.0]
std = [0.5, 5.0]
""",
        encoding="utf-8",
    )
    return tmp_path


def grid_of(deployment, encoders):
    grid, config = sites_grid(deployment)
    for node, name in zip(grid.nodes.values(), encoders, strict=True):
        node["encoder"] = str(deployment / name / "encoder" / "net.onnx")
    return grid, config


def test_sites_encode_their_own_texts(deployment):
    run = served(*grid_of(deployment, ("a", "b")))
    assert run.summary["last_held_out_accuracy"] == 1.0
    with (deployment / "b" / "state" / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 30
    assert {row["sample"] for row in rows} >= {"low/0.txt", "high/14.txt"}
    assert 'encoder_sha256 = "' in (deployment / "run" / "config.toml").read_text()


def test_a_site_makes_its_encoder_once_a_message(deployment, monkeypatch):
    _, config = grid_of(deployment, ("a", "b"))
    experiment = experiment_of(config)
    made = []
    whole = OnnxGraph.__init__

    def counted(self, content, name):
        made.append(name)
        whole(self, content, name)

    monkeypatch.setattr(OnnxGraph, "__init__", counted)
    held = OwnData(deployment / "b" / "images").load(experiment, 0)
    assert held.dataset.input_shape == (2,)
    assert len(made) == 1


def test_sites_tell_sums_of_their_features(deployment):
    file = deployment / "experiment.toml"
    plain = file.read_text().replace("mean = [3.0, 30.0]\nstd = [0.5, 5.0]", "")
    file.write_text(plain + 'standardise = "clients"\n')
    run = served(*grid_of(deployment, ("a", "b")))
    assert run.summary["last_held_out_accuracy"] == 1.0


def test_a_site_with_another_encoder_stays_out(deployment, capsys):
    tokenizer(deployment / "b" / "encoder", longest=7)
    grid, config = grid_of(deployment, ("a", "b"))
    with pytest.raises(TooFew, match="its encoder has other weights than the run's") as told:
        served(grid, config)
    assert str(deployment / "b") not in str(told.value)  # where it is, is told at home alone
    said = [line for line in capsys.readouterr().out.splitlines() if "weights are others" in line]
    assert len(said) >= 1
