"""Labels that people gave, and the clients that they are."""

import io
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data import DataOptions, Dataset, load_dataset, make_draw
from feddiv.data.noise import Human, Mixed, NoNoise
from feddiv.data.partition import Annotator, Iid, Natural
from feddiv.data.published.pickles import read_pickle
from feddiv.runs.prepare import drawn

MakeDataset = Callable[..., Dataset]
FILE = Path("cifar-n") / "CIFAR-10_human.pt"
CLEAN = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
WORSE = [0, 2, 2, 0, 1, 0, 1, 1, 2, 0]


def write(path: Path, content: object, *, compressed: bool = False, copies: int = 1) -> Path:
    """A file as torch.save writes it: a pickle in a zip."""
    path.parent.mkdir(exist_ok=True)
    kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", kind) as archive:
        for copy in range(copies):
            archive.writestr(f"archive{copy}/data.pkl", pickle.dumps(content, protocol=2))
        archive.writestr("archive0/version", "3")
    return path


def labels(**columns: list[int]) -> dict[str, np.ndarray]:
    return {key: np.array(column) for key, column in columns.items()}


@pytest.fixture
def data(make_dataset: MakeDataset) -> Dataset:
    return replace(make_dataset(CLEAN, truth=CLEAN), name="cifar10")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    content = labels(clean_label=CLEAN, worse_label=WORSE, aggre_label=CLEAN)
    write(tmp_path / FILE, content)
    return tmp_path


def test_people_give_the_labels(data: Dataset, folder: Path) -> None:
    noise = Human(labels="worse", path=folder / FILE)
    draw = make_draw(data, Iid(), noise, 2, Streams(0))
    draw.check(data)
    assert draw.given.tolist() == WORSE
    assert draw.truth is not None
    assert draw.truth.tolist() == CLEAN
    assert draw.levels is not None
    wrong = np.array(WORSE) != np.array(CLEAN)
    assert draw.levels.tolist() == [wrong[part].mean() for part in draw.parts]
    clean = make_draw(data, Iid(), Human(labels="aggre", path=folder / FILE), 2, Streams(0))
    assert clean.levels is not None
    assert clean.levels.tolist() == [0, 0]


def test_a_subset_keeps_each_image_its_label(data: Dataset, folder: Path) -> None:
    rows = torch.tensor([1, 4, 5, 9])
    part = data.chosen(rows)
    assert part.chosen(torch.tensor([0, 2])).origin.tolist() == [1, 5]
    draw = make_draw(part, Iid(), Human(labels="worse", path=folder / FILE), 1, Streams(0))
    assert draw.given.tolist() == [WORSE[row] for row in rows]


def test_people_and_others_in_one_run(data: Dataset, folder: Path) -> None:
    noise = Mixed(kinds=(NoNoise(), Human(labels="worse", path=folder / FILE)))
    draw = make_draw(data, Iid(), noise, 2, Streams(0))
    none, human = draw.parts
    assert draw.given[none].tolist() == np.array(CLEAN)[none].tolist()
    assert draw.given[human].tolist() == np.array(WORSE)[human].tolist()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (labels(clean_label=CLEAN[::-1], worse_label=WORSE), "differ from those of cifar10 for 6"),
        (labels(clean_label=[*CLEAN, 1], worse_label=[*WORSE, 1]), "labels for 11 training images"),
        (labels(clean_label=CLEAN[:4], worse_label=WORSE[:4]), "labels for 4 training images"),
        (labels(clean_label=CLEAN, worse_label=WORSE[:4]), "10 labels in clean_label but 4"),
        (labels(clean_label=CLEAN, worse_label=[3] * 10), r"label 3 is not in 0\.\.2"),
        (labels(clean_label=CLEAN), "no labels 'worse_label' in it, found clean_label"),
        ({"clean_label": CLEAN, "worse_label": WORSE}, "clean_label is not a list of class"),
        ([1, 2], "holds a list, not sets of labels"),
    ],
)
def test_labels_that_do_not_fit_are_refused(
    data: Dataset, folder: Path, content: object, said: str
) -> None:
    write(folder / FILE, content)
    with pytest.raises(UserError, match=said):
        make_draw(data, Iid(), Human(labels="worse", path=folder / FILE), 2, Streams(0))


def test_which_labels_there_are_is_said(data: Dataset, folder: Path) -> None:
    for noise in (Human(path=folder / FILE), Human(labels="noisy", path=folder / FILE)):
        with pytest.raises(UserError, match="cifar10 has aggre, random1, random2, random3, worse"):
            make_draw(data, Iid(), noise, 2, Streams(0))
    with pytest.raises(UserError, match=r"noise\.path=.*holds no cifar-n"):
        make_draw(data, Iid(), Human(labels="worse", path=Path("/")), 2, Streams(0))


def test_only_arrays_come_out_of_such_a_file(tmp_path: Path) -> None:
    plain = write(tmp_path / "a.pt", labels(x=[1, 2]))
    assert read_pickle(plain)["x"].tolist() == [1, 2]
    for content in (print, torch.nn.Linear(2, 2)):
        with pytest.raises(UserError, match="refused, the pickle asks for"):
            read_pickle(write(tmp_path / "b.pt", content))
    torch.save({"x": torch.zeros(3)}, tmp_path / "c.pt")
    with pytest.raises(UserError, match=r"c\.pt: (refused|not a readable pickle)"):
        read_pickle(tmp_path / "c.pt")
    with pytest.raises(UserError, match="a compressed zip"):
        read_pickle(write(tmp_path / "d.pt", labels(x=[1]), compressed=True))
    with pytest.raises(UserError, match="a zip with 2 members"):
        read_pickle(write(tmp_path / "e.pt", labels(x=[1]), copies=2))
    whole = plain.read_bytes()
    for size in (3, 40, len(whole) - 10):
        plain.write_bytes(whole[:size])
        with pytest.raises(UserError, match="not a readable pickle"):
            read_pickle(plain)
    buffer = io.BytesIO(whole)
    assert zipfile.is_zipfile(buffer)


# Clients that the data names


def held(data: Dataset, holder: list[int], names: str = "xyz") -> Dataset:
    return replace(data, holder=torch.tensor(holder), clients=tuple(names))


def test_natural_clients_are_those_of_the_data(data: Dataset) -> None:
    mine = held(data, [0, 0, 1, 1, 1, 2, 2, 0, 1, 2])
    draw = make_draw(mine, Natural(), NoNoise(), None, Streams(0))
    draw.check(mine)
    assert [part.tolist() for part in draw.parts] == [[0, 1, 7], [2, 3, 4, 8], [5, 6, 9]]
    assert draw.names == ("x", "y", "z")
    assert not draw.iid
    same = make_draw(mine, Natural(), NoNoise(), 3, Streams(9))
    assert same.hash == draw.hash
    with pytest.raises(UserError, match=r"clients\.count=4: cifar10 has 3 clients"):
        make_draw(mine, Natural(), NoNoise(), 4, Streams(0))
    with pytest.raises(UserError, match="does not say which client"):
        make_draw(data, Natural(), NoNoise(), None, Streams(0))


def test_small_natural_clients_are_refused_or_dropped(data: Dataset, tmp_path: Path) -> None:
    mine = held(data, [0, 0, 1, 1, 1, 2, -1, 0, 1, 0])
    with pytest.raises(UserError, match=r"1 of 3 clients have fewer than min_size=2.*'z' has 1"):
        make_draw(mine, Natural(), NoNoise(), None, Streams(0))
    draw = make_draw(mine, Natural(small="drop"), NoNoise(), None, Streams(0))
    assert draw.names == ("x", "y")
    assert sum(len(part) for part in draw.parts) == 8
    draw.save(tmp_path / "draw.npz")
    assert type(draw).load(tmp_path / "draw.npz").names == ("x", "y")
    with pytest.raises(UserError, match=r"none of 3 clients has .* min_size=9 .*largest has 4"):
        make_draw(mine, Natural(small="drop", min_size=9), NoNoise(), None, Streams(0))
    subset = mine.chosen(torch.tensor([0, 1, 2, 3]))
    parts = make_draw(subset, Natural(small="drop"), NoNoise(), None, Streams(0)).parts
    assert [part.tolist() for part in parts] == [[0, 1], [2, 3]]


def annotators(folder: Path, text: str) -> Annotator:
    file = folder / "cifar-n" / "side_info_cifar100N.csv"
    file.parent.mkdir(exist_ok=True)
    file.write_text("Image-batch,Worker-id,Work-time-in-seconds\n" + text)
    return Annotator(path=file, min_size=3)


def test_annotators_are_clients(data: Dataset, folder: Path) -> None:
    hundred = replace(data, name="cifar100")
    partition = annotators(folder, "0--3,12,5\n4--4,3,5\n5--7,7,9\n8--9,3,2\n")
    draw = make_draw(hundred, partition, NoNoise(), None, Streams(0))
    assert draw.names == ("annotator 3", "annotator 7", "annotator 12")
    assert [part.tolist() for part in draw.parts] == [[4, 8, 9], [5, 6, 7], [0, 1, 2, 3]]
    part = hundred.chosen(torch.tensor([1, 2, 3, 5, 8]))
    only = make_draw(part, partition, NoNoise(), None, Streams(0))
    assert (only.names, only.parts[0].tolist()) == (("annotator 12",), [0, 1, 2])
    with pytest.raises(UserError, match=r"it is for data\.source=cifar100"):
        make_draw(data, partition, NoNoise(), None, Streams(0))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0--3,12,5\n", "4 images have annotators, sample 9"),
        ("0--3,12,5\n5--9,1,1\n", "without a gap"),
        ("0--3,12,5\n3--9,1,1\n", "comes twice"),
        ("0--3,me,5\n", "not the annotators"),
        (f"0--9,{1 << 63},5\n", "its annotators have larger numbers than"),
        ("zero,1\n", "not the annotators"),
        ("", "its 0 images"),
    ],
)
def test_damaged_annotators_are_refused(data: Dataset, folder: Path, text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        make_draw(
            replace(data, name="cifar100"), annotators(folder, text), NoNoise(), None, Streams(0)
        )


def test_what_is_found_in_a_folder_has_to_be_the_published_file(
    data: Dataset, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDDIV_DATA", str(folder))
    annotators(folder, "0--9,12,5\n")
    hundred = replace(data, name="cifar100")
    for path in (folder, folder / "cifar-n", None):
        with pytest.raises(UserError, match=r"CIFAR-10_human\.pt is cut off.*data get cifar-n"):
            make_draw(data, Iid(), Human(labels="worse", path=path), 2, Streams(0))
        with pytest.raises(UserError, match=r"side_info_cifar100N\.csv is cut off"):
            make_draw(hundred, Annotator(path=path), NoNoise(), None, Streams(0))


def test_a_changed_label_of_the_real_files_is_noticed(
    cifar_n_folder: Path, data: Dataset, tmp_path: Path
) -> None:
    mine = tmp_path / FILE
    mine.parent.mkdir()
    content = bytearray((cifar_n_folder / FILE).read_bytes())
    content[len(content) // 2] ^= 1
    mine.write_bytes(content)
    with pytest.raises(UserError, match=r"CIFAR-10_human\.pt has a wrong checksum"):
        make_draw(data, Iid(), Human(labels="worse", path=tmp_path), 2, Streams(0))


# The real files

# Shares of wrong labels as the authors of CIFAR-N publish them.
RATES = {"aggre": 0.090, "random1": 0.172, "random2": 0.181, "random3": 0.176, "worse": 0.402}


@pytest.mark.slow
def test_cifar10n(cifar_n_folder: Path, cifar_folder: Path) -> None:
    real = load_dataset(DataOptions(source="cifar10", path=cifar_folder), Streams(0))
    few = real.chosen(torch.arange(1, 50_000, 20))
    for which, rate in RATES.items():
        noise = Human.model_validate({"labels": which, "path": cifar_n_folder})
        draw = make_draw(real, Iid(), noise, 100, Streams(0))
        assert draw.truth is not None
        assert (draw.given != draw.truth).mean() == pytest.approx(rate, abs=0.0006)
        part = make_draw(few, Iid(), noise, 10, Streams(0))
        assert part.given.tolist() == draw.given[1::20].tolist()


@pytest.mark.slow
def test_cifar100n_annotators(cifar_n_folder: Path, cifar100_folder: Path) -> None:
    settings = [
        f"data.path={cifar100_folder}",
        f"noise.path={cifar_n_folder}",
        f"partition.path={cifar_n_folder}",
    ]
    _, draw = drawn(load_experiment("cifar100n-annotators", settings))
    sizes = [len(part) for part in draw.parts]
    assert (len(sizes), sum(sizes), min(sizes)) == (98, 39_095, 100)
    assert draw.levels is not None
    assert 0.16 <= draw.levels.min() < 0.17
    assert 0.985 < draw.levels.max() < 1
    assert np.median(draw.levels) == pytest.approx(0.38, abs=0.006)
    assert draw.truth is not None
    assert (draw.given != draw.truth)[np.concatenate(draw.parts)].mean() == pytest.approx(
        0.393, abs=0.001
    )
