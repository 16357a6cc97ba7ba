"""Files that people are sent and runs that somebody else made: read, or refused in one line."""

import io
import pickle
import shutil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.fuzzed import FEW_AND_MANY, as_file, fine_or_refused, fuzzed, spoilt

import feddiv
from feddiv.audits.probabilities import read_predictions
from feddiv.data.published.cifar_n import read_annotators, read_human_labels
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.registry import make_encoder
from feddiv.reports.record import read_runs

ANNOTATORS = b"Image-batch,Worker-id,Work-time-in-seconds\n0--9,3,20\n10--19,7,31\n20--29,3,8\n"
PREDICTED = b"sample,label,cat,dog\na.png,cat,0.9,0.1\nb.png,dog,0.2,0.8\nc.png,dog,0.6,0.4\n"
TINY = {
    "against": [],
    "method.name": "fedavg",
    "rounds": 2,
    "data.images": 60,
    "clients.count": 2,
    "train.epochs": 1,
}


def human_labels() -> bytes:
    labels = np.arange(40) % 10
    return pickle.dumps({"clean_label": labels, "worse_label": labels[::-1].copy()}, protocol=2)


def predictions() -> bytes:
    content = io.BytesIO()
    np.savez(content, probabilities=np.full((6, 2), 0.5), labels=np.arange(6) % 2)
    return content.getvalue()


@FEW_AND_MANY
def test_annotators(how):
    numbers = st.integers().map(lambda number: ANNOTATORS.replace(b"7", str(number).encode()))

    @fuzzed(how)
    @given(spoilt(ANNOTATORS) | numbers | st.binary(max_size=300))
    def check(content):
        with as_file(content, "side.csv") as path:
            fine_or_refused(lambda: read_annotators(path))

    check()


@FEW_AND_MANY
def test_human_labels(how):
    @fuzzed(how)
    @given(spoilt(human_labels()))
    def check(content):
        with as_file(content, "mine.pt") as path:
            fine_or_refused(lambda: read_human_labels(path, "cifar10", "worse"))

    check()


@FEW_AND_MANY
@pytest.mark.parametrize(("name", "whole"), [("p.csv", PREDICTED), ("p.npz", predictions())])
def test_probabilities(how, name, whole):
    @fuzzed(how)
    @given(spoilt(whole))
    def check(content):
        with as_file(content, name) as path:
            fine_or_refused(lambda: read_predictions(path))

    check()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return feddiv.run(
        "quickstart", TINY, out=tmp_path_factory.mktemp("run") / "it", workers=0
    ).folder


@pytest.mark.slow
@FEW_AND_MANY
@pytest.mark.parametrize("name", ["rounds.jsonl", "clients.jsonl", "summary.json", "config.toml"])
def test_folders_of_runs(how, name, finished, tmp_path):
    folder = tmp_path / "theirs"
    shutil.copytree(finished, folder)

    @fuzzed(how)
    @given(spoilt((finished / name).read_bytes()))
    def check(content):
        (folder / name).write_bytes(content)
        fine_or_refused(lambda: read_runs([folder]))
        fine_or_refused(lambda: feddiv.report(folder, out=tmp_path / "page.html"))

    check()


@FEW_AND_MANY
def test_onnx_encoders(how, tmp_path):
    pytest.importorskip("onnxruntime", reason="needs feddiv[encoders]")
    pytest.importorskip("onnx", reason="needs the dev extra")
    from tests.encoders.colours import onnx_file

    good = onnx_file(tmp_path / "good.onnx").read_bytes()
    image = torch.zeros(1, 8, 8, 3, dtype=torch.uint8)

    @fuzzed(how)
    @given(spoilt(good) | st.binary(max_size=200))
    def check(content):
        with as_file(content, "encoder.onnx") as file:
            choice = EncoderChoice(str(file), mean=(0.0,), std=(1.0,))
            fine_or_refused(lambda: make_encoder(choice, 8).encode(image))

    check()
