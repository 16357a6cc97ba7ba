"""Images of another data set under this one's labels."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.data.pictures import Listener, class_folders, load

import feddiv
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data import OUTSIDE, DataOptions, Dataset, Draw, client_samples, load_dataset, make_draw
from feddiv.data.noise import Mixed, NoNoise, OpenSet, Symmetric
from feddiv.data.partition import Iid

MakeDataset = Callable[..., Dataset]


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Forty RGB images of 5x4 pixels; the blue channel tells which."""
    x = np.zeros((50, 5, 4, 3), np.uint8)
    x[..., 2] = np.arange(50)[:, None, None] + 100
    path = tmp_path / "other.npz"
    y = np.arange(50) % 2
    np.savez(path, x=x[:40], y=y[:40], x_test=x[40:], y_test=y[40:])
    return path


def noise_of(path: Path, level: float = 0.5) -> OpenSet:
    return OpenSet(levels="constant", level=level, source="npz", path=path)


@pytest.fixture
def data(make_dataset: MakeDataset) -> Dataset:
    labels = [0, 1, 2] * 20
    return make_dataset(labels, truth=labels)


def test_labels_stay_and_nothing_is_true_of_foreign_images(data: Dataset, other: Path) -> None:
    draw = make_draw(data, Iid(), noise_of(other), 4, Streams(1))
    draw.check(data)
    assert draw.foreign is not None
    assert draw.truth is not None
    shown = draw.foreign.shown
    assert 15 <= shown.sum() <= 40
    assert draw.given.tolist() == data.train.labels.tolist()
    assert (draw.truth[shown] == OUTSIDE).all()
    assert draw.truth[~shown].tolist() == data.train.labels.numpy()[~shown].tolist()
    rows = draw.foreign.rows[shown]
    assert len(set(rows)) == len(rows), "each foreign image once"
    assert draw.kinds == ("open_set",) * 4


def test_clients_see_the_foreign_images_fitted_to_the_data(data: Dataset, other: Path) -> None:
    noise = noise_of(other)
    draw = make_draw(data, Iid(), noise, 4, Streams(1))
    seen = noise.shown(data, draw.foreign)
    assert draw.foreign is not None
    assert seen.train.inputs.shape == data.train.inputs.shape
    for sample, row in enumerate(draw.foreign.rows):
        pixels = seen.train.inputs[sample]
        if row < 0:
            assert pixels.unique().tolist() == [sample]
        else:  # blue alone, as grey: 0.114 of it
            assert pixels.unique().tolist() == [round((row + 100) * 0.114)]
    assert data.train.inputs[3].unique().tolist() == [3], "the data themselves stay"
    samples = client_samples(seen, draw, 0)
    assert samples.truth is not None
    assert (samples.truth == OUTSIDE).any()


def test_grey_images_become_colour(make_dataset: MakeDataset, tmp_path: Path) -> None:
    grey = np.full((30, 2, 2), 77, np.uint8)
    np.savez(
        tmp_path / "grey.npz", x=grey, y=np.arange(30) % 2, x_test=grey, y_test=np.arange(30) % 2
    )
    data = make_dataset([0, 1, 2] * 4, truth=[0, 1, 2] * 4)
    colour = replace(data.train, inputs=data.train.inputs.expand(-1, -1, -1, 3).clone())
    noise = noise_of(tmp_path / "grey.npz", 1.0)
    data = replace(data, train=colour)
    seen = noise.shown(data, make_draw(data, Iid(), noise, 2, Streams(0)).foreign)
    assert seen.train.inputs.shape == (12, 2, 2, 3)
    assert seen.train.inputs.unique().tolist() == [77]


def test_a_saved_draw_shows_the_same_images(data: Dataset, other: Path, tmp_path: Path) -> None:
    noise = noise_of(other)
    draw = make_draw(data, Iid(), noise, 4, Streams(1))
    draw.save(tmp_path / "draw.npz")
    back = Draw.load(tmp_path / "draw.npz")
    back.check(data)
    assert back.hash == draw.hash
    assert back.foreign is not None
    assert torch.equal(
        noise.shown(data, back.foreign).train.inputs, noise.shown(data, draw.foreign).train.inputs
    )
    moved = replace(back.foreign, rows=np.roll(back.foreign.rows, 1))
    assert replace(back, foreign=moved).hash != draw.hash
    assert replace(back, foreign=replace(moved, fingerprint="0")).hash != draw.hash


def test_a_saved_draw_refuses_other_images(data: Dataset, other: Path, tmp_path: Path) -> None:
    make_draw(data, Iid(), noise_of(other), 4, Streams(1)).save(tmp_path / "draw.npz")
    draw = Draw.load(tmp_path / "draw.npz")
    with pytest.raises(UserError, match=r"show images of npz; set noise\.name=open_set"):
        NoNoise().shown(data, draw.foreign)
    with np.load(other) as archive:
        arrays = {key: archive[key] for key in archive.files}
    np.savez(other, **{**arrays, "x": arrays["x"] + 1})
    with pytest.raises(UserError, match="made with other images of npz"):
        noise_of(other).shown(data, draw.foreign)
    np.savez(other, **{**arrays, "x": arrays["x"][:3], "y": arrays["y"][:3]})
    with pytest.raises(UserError, match=r"made with sample \d+ of npz, noise.source=npz has 3"):
        noise_of(other).shown(data, draw.foreign)


def test_a_true_label_of_a_foreign_image_is_refused(data: Dataset, other: Path) -> None:
    draw = make_draw(data, Iid(), noise_of(other), 4, Streams(1))
    with pytest.raises(UserError, match="a foreign image has a true label"):
        replace(draw, truth=data.train.labels.numpy()).check(data)
    with pytest.raises(UserError, match=r"true label -1 is not in 0\.\.2"):
        replace(draw, foreign=None).check(data)


def test_what_cannot_be_shown_is_refused_with_numbers(
    make_dataset: MakeDataset, data: Dataset, other: Path, tmp_path: Path
) -> None:
    def refused(noise: OpenSet, target: Dataset = data) -> str:
        with pytest.raises(UserError) as caught:
            make_draw(target, Iid(), noise, 2, Streams(0))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "60 samples are to show a foreign image and it has 40" in refused(noise_of(other, 1))
    assert "noise.source has to name" in refused(OpenSet(rho=1, tau=1))
    assert "noise.source=nix is unknown; allowed" in refused(OpenSet(rho=1, tau=1, source="nix"))
    assert "noise.path" in refused(OpenSet(rho=1, tau=1, source="npz"))
    np.savez(tmp_path / "f.npz", x=np.zeros((90, 7)), y=np.arange(90) % 2)
    message = refused(noise_of(tmp_path / "f.npz", 1))
    assert "vectors of 7 numbers" in message
    assert "images of 2x2 with 1 channels" in message
    digits = load_dataset(DataOptions(images=100), Streams(3))
    itself = OpenSet(levels="constant", level=0.1, source="digits")
    assert "is the data set itself" in refused(itself, digits)


def test_a_mixture_shows_the_images_of_its_open_set(data: Dataset, other: Path) -> None:
    noise = Mixed(kinds=(NoNoise(), noise_of(other, 0.8), Symmetric(rho=1, tau=1)))
    draw = make_draw(data, Iid(), noise, 6, Streams(2))
    draw.check(data)
    assert draw.foreign is not None
    shown = draw.foreign.shown
    assert [bool(shown[part].any()) for part in draw.parts] == [False, True, False] * 2
    seen = noise.shown(data, draw.foreign)
    changed = (seen.train.inputs != data.train.inputs).flatten(1).any(dim=1).numpy()
    assert (changed <= shown).all()
    assert changed.any()


@pytest.mark.slow
def test_a_run_counts_foreign_images_as_wrong_and_never_right(other: Path, tmp_path: Path) -> None:
    settings = [
        "noise.name=open_set",
        "noise.source=npz",
        f"noise.path={other}",
        "noise.levels=constant",
        "noise.level=0.2",
        "method.variant=perfect-filter",
        "data.images=150",
        "clients.count=3",
        "clients.fraction=1",
        "rounds=3",
        "warmup.iterations=1",
        "train.epochs=1",
        "against=[]",
    ]
    run = feddiv.run("quickstart", settings, out=tmp_path / "run", workers=0)
    truth, given = run.assessment["true_label"], run.assessment["given_label"]
    outside = truth == OUTSIDE
    assert 15 <= outside.sum() <= 40
    assert (truth[~outside] == given[~outside]).all()
    assert run.summary["wrong"] == pytest.approx(outside.mean())
    # The perfect filter knows them: it keeps none of them, and drops nothing else.
    assert run.summary["filter"]["f1"] == 1.0
    assert ((run.assessment["label_quality"] < 0.5) == outside).all()
    visits = [
        line
        for line in map(json.loads, (run.folder / "clients.jsonl").open())
        if "relabelled_right" in line
    ]
    assert visits
    for visit in visits:
        assert visit["relabelled_right"] == 0
        for label, _, _ in visit["labels_filtered"]:
            assert OUTSIDE <= label < 10
    # The same draw again, from its file: the images have to be named again.
    again = [*settings, f"data.draw={run.folder / 'draw.npz'}"]
    repeated = feddiv.run("quickstart", again, out=tmp_path / "again", workers=0)
    assert repeated.summary["model_hash"] == run.summary["model_hash"]
    with pytest.raises(UserError, match=r"made with noise\.name=open_set, it is none here"):
        feddiv.run("quickstart", [*again, "noise.name=none"][5:], out=tmp_path / "no")


def test_mapped_data_are_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    data = load(source="folder", path=class_folders(tmp_path / "mine"), size=8)
    noise = OpenSet(levels="constant", level=0.5, source="npz", path=tmp_path / "nowhere.npz")
    with pytest.raises(UserError, match="is mapped from disk"):
        make_draw(data, Iid(), noise, 2, Streams(0))


def test_the_other_set_is_loaded_once_without_test_samples_and_not_in_silence(
    data: Dataset, tmp_path: Path
) -> None:
    folder = class_folders(tmp_path / "theirs", 40)
    noise = OpenSet(levels="constant", level=0.5, source="folder", path=folder)
    listener = Listener()
    draw = make_draw(data, Iid(), noise, 4, Streams(1), listener)
    assert {what for what, _, _ in listener.steps} == {"training images"}
    assert draw.foreign is not None
    shutil.rmtree(folder)
    seen = noise.shown(data, draw.foreign)
    assert not torch.equal(seen.train.inputs, data.train.inputs)
