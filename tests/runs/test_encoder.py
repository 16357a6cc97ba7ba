"""Runs on the features of a frozen encoder: what is pinned, gone on with, and used afterwards."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs the dev extra")
pytest.importorskip("onnxruntime", reason="needs feddiv[encoders]")

from PIL import Image
from sklearn.datasets import load_digits
from tests.encoders.colours import onnx_file

import feddiv
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.core.files import load_tensors, tensors_hash
from feddiv.core.import_path import _named
from feddiv.runs.start_and_resume import Watcher, as_begun

pytestmark = pytest.mark.slow

COLOURS = "tests.encoders.colours:Colours"
TINY: dict[str, Any] = {
    "rounds": 3,
    "warmup.iterations": 1,
    "data.images": 200,
    "data.test_images": 50,
    "train.epochs": 1,
    "against": [],
    "model.name": "mlp",
    "data.encoder": COLOURS,
}


class Impatient(Watcher):
    """Stops a run after its first round."""

    def round(self, line: dict[str, Any]) -> None:
        raise KeyboardInterrupt


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return onnx_file(tmp_path / "colours.onnx", size="side")


def model_of(run: feddiv.Run) -> str:
    return tensors_hash(load_tensors(run.folder / "model.safetensors")[0])


def plain(file: Path, **more: Any) -> dict[str, Any]:
    normalisation = {"data.encoder_mean": 0.0, "data.encoder_std": 1.0, "data.encoder_size": 8}
    return {**TINY, "data.encoder": str(file), **normalisation, **more}


def test_what_the_encoder_is_stands_in_the_runs_config(tmp_path: Path) -> None:
    run = feddiv.run("quickstart", TINY, out=tmp_path / "run", workers=0)
    data = load_experiment(run.folder / "config.toml").data
    assert (data.encoder, data.encoder_size, data.encoder_mean) == (COLOURS, 8, (0.0, 0.0, 0.0))
    assert data.encoder_sha256 is not None
    assert len(data.encoder_sha256) == 64


def test_the_bits_are_the_same_for_any_number_of_workers(tmp_path: Path) -> None:
    settings = {**TINY, "data.encoder_views": 2}
    runs = [
        feddiv.run("quickstart", settings, out=tmp_path / str(workers), workers=workers)
        for workers in (0, 2)
    ]
    assert model_of(runs[0]) == model_of(runs[1])
    one = feddiv.run("quickstart", TINY, out=tmp_path / "one", workers=0)
    assert model_of(one) != model_of(runs[0])  # views were drawn


def test_a_stopped_run_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    whole = feddiv.run("quickstart", TINY, out=tmp_path / "whole", workers=0)
    with pytest.raises(KeyboardInterrupt):
        feddiv.run("quickstart", TINY, out=tmp_path / "cut", workers=0, watcher=Impatient())
    again = feddiv.resume(tmp_path / "cut", workers=0)
    assert model_of(again) == model_of(whole)


def test_the_same_settings_go_on_with_a_run(tmp_path: Path, graph: Path) -> None:
    """One number for all colours, and capitals of a sha256, are what the run made of them."""
    sha256 = hashlib.sha256(graph.read_bytes()).hexdigest().upper()
    settings = plain(graph, **{"data.encoder_mean": 0.5, "data.encoder_sha256": sha256})
    begun = feddiv.run("quickstart", settings, out=tmp_path / "run", workers=0)
    kept = load_experiment(begun.folder / "config.toml")
    assert kept.data.encoder_mean == (0.5, 0.5, 0.5)
    as_begun(kept, load_experiment("quickstart", settings), begun.folder)
    other = {**settings, "data.encoder_mean": 0.4}
    with pytest.raises(
        UserError, match=r"data.encoder_mean=\(0.4,\): the run in .* was begun with"
    ):
        as_begun(kept, load_experiment("quickstart", other), begun.folder)


def test_an_encoder_with_other_weights_ends_a_resume(tmp_path: Path, graph: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        feddiv.run("quickstart", plain(graph), out=tmp_path / "a", workers=0, watcher=Impatient())
    onnx_file(graph, size="side", metadata={"other": "file"})
    with pytest.raises(UserError, match="its weights are others than those of this run"):
        feddiv.resume(tmp_path / "a", workers=0)


def test_a_relative_path_means_the_same_from_anywhere(
    tmp_path: Path, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = feddiv.run("quickstart", plain(Path(graph.name)), out="run", workers=0)
    assert load_experiment(run.folder / "config.toml").data.encoder == str(graph)


def test_a_home_that_nobody_has_is_one_line() -> None:
    experiment = load_experiment("quickstart", plain(Path("~nosuchuser/x.onnx")))
    with pytest.raises(UserError, match=r"~nosuchuser/x\.onnx: there is no home folder"):
        experiment.from_anywhere()


def digit_files(folder: Path, count: int = 5) -> tuple[list[Path], np.ndarray]:
    images = np.rint(load_digits().images[:count] * (255 / 16)).astype(np.uint8)
    folder.mkdir()
    files = [folder / f"{number}.png" for number in range(count)]
    for image, file in zip(images, files, strict=True):
        Image.fromarray(image).save(file)
    return files, images[..., None]


def test_the_trained_model_takes_images_and_vectors(tmp_path: Path, graph: Path) -> None:
    run = feddiv.run("quickstart", plain(graph), out=tmp_path / "run", workers=0)
    model = feddiv.load(run.folder / "model.safetensors")
    files, images = digit_files(tmp_path / "new")
    probabilities = model.predict_proba(images)
    assert probabilities.shape == (5, 10)
    assert np.array_equal(model.predict_proba(files), probabilities)
    assert np.allclose(model.predict_proba(images[2:3]), probabilities[2:3])
    means = np.repeat(2 * images.mean(axis=(1, 2)) / 255, 3, axis=1).astype(np.float16)
    assert np.allclose(model.predict_proba(means.astype(np.float32)), probabilities, atol=1e-3)
    with pytest.raises(UserError, match=r"takes \(8, 8, 1\) of uint8"):
        model.predict_proba(np.zeros((1, 9, 9, 1), np.uint8))


def test_predict_finds_the_encoder_where_it_is_now(tmp_path: Path, graph: Path) -> None:
    run = feddiv.run("quickstart", plain(graph), out=tmp_path / "run", workers=0)
    _, images = digit_files(tmp_path / "new")
    wanted = feddiv.load(run.folder).predict_proba(images)
    moved = graph.rename(tmp_path / "moved.onnx")
    with pytest.raises(UserError, match=r"onnx: there is no such file; .* predict --encoder"):
        feddiv.load(run.folder)
    model = feddiv.load(run.folder, encoder=str(moved))
    assert np.array_equal(model.predict_proba(images), wanted)
    other = onnx_file(tmp_path / "other.onnx", size="side", metadata={"other": "file"})
    with pytest.raises(UserError, match="its weights are others"):
        feddiv.load(run.folder, encoder=str(other))


def test_a_models_file_imports_no_encoder_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = feddiv.run("quickstart", TINY, out=tmp_path / "run", workers=0)
    monkeypatch.setattr("feddiv.core.import_path._named", _named - {COLOURS})
    with pytest.raises(UserError, match=f"--allow {COLOURS}"):
        feddiv.load(run.folder)
    feddiv.load(run.folder, allow=[COLOURS])


def test_foreign_images_are_encoded_too(tmp_path: Path) -> None:
    other = tmp_path / "other.npz"
    pixels = np.random.default_rng(0).integers(0, 255, (300, 12, 12, 3), dtype=np.uint8)
    np.savez(other, x=pixels, y=np.arange(300) % 2)
    noise = {"name": "open_set", "source": "npz", "path": str(other), "levels": "constant"}
    settings = {f"noise.{key}": value for key, value in noise.items()}
    settings = {**TINY, **settings, "noise.level": 0.4, "data.encoder_views": 2}
    run = feddiv.run("quickstart", settings, out=tmp_path / "run", workers=0)
    draw = np.load(run.folder / "draw.npz")
    assert 40 < (draw["foreign"] >= 0).sum() < 120
    # A saved draw finds the same foreign images again.
    settings["data.draw"] = str(run.folder / "draw.npz")
    again = feddiv.run("quickstart", settings, out=tmp_path / "again", workers=0)
    assert model_of(again) == model_of(run)


def test_noise_may_look_at_the_features(tmp_path: Path) -> None:
    settings = {**TINY, "noise.name": "instance", "noise.rho": 1.0, "noise.tau": 0.3}
    run = feddiv.run("quickstart", settings, out=tmp_path / "run", workers=0)
    draw = np.load(run.folder / "draw.npz")
    assert 0.2 < (draw["given"] != draw["truth"]).mean() < 0.9


def test_features_are_standardised_by_sums_of_the_clients(tmp_path: Path) -> None:
    """The sums are of the vectors as they are stored, and of each sample's first view."""
    found = {}
    for standardise in ("source", "clients"):
        changes = {**TINY, "data.standardise": standardise, "data.encoder_views": 2}
        run = feddiv.run("quickstart", changes, out=tmp_path / standardise, workers=2)
        found[standardise] = feddiv.load(run.folder, allow=[COLOURS]).card
    source, clients = found["source"], found["clients"]
    np.testing.assert_allclose(clients.mean, source.mean, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(clients.std, source.std, rtol=1e-3)
