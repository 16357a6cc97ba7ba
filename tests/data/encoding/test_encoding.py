import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.data.pictures import Listener, class_folders, picture

from feddiv.core import processes
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data import DataOptions, Dataset, load_dataset
from feddiv.data.encoding.encode import BATCHES
from feddiv.data.encoding.feature_store import FeatureStore
from feddiv.data.sources.npz import build_dataset
from feddiv.encoders.contract import Encoder
from feddiv.encoders.registry import make_encoder
from feddiv.encoders.torch_module import ModuleEncoder

pytest.importorskip("onnx", reason="needs the dev extra")

COLOURS = "tests.encoders.colours:Colours"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDDIV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(processes, "usable_cores", lambda: 1)
    return tmp_path / "cache"


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many samples each call of the encoder was about."""
    counts: list[int] = []
    vectors = ModuleEncoder.vectors

    def counted(self: Encoder, samples: torch.Tensor) -> torch.Tensor:
        counts.append(len(samples))
        return vectors(self, samples)

    monkeypatch.setattr(ModuleEncoder, "vectors", counted)
    return counts


def images(count: int, side: int = 8) -> np.ndarray:
    """Image n, up to 100, is red n in its left half and green 2n in its right half."""
    found = np.zeros((count, side, side, 3), np.uint8)
    hundreds, rest = np.divmod(np.arange(count)[:, None, None], 100)
    found[:, :, : side // 2, 0] = rest
    found[:, :, side // 2 :, 1] = 2 * rest
    found[..., 2] = hundreds
    return found


def source(count: int = 40, tests: int = 10) -> Dataset:
    pixels = images(count + tests)
    labels = np.arange(count + tests) % 2
    return build_dataset(
        {
            "x": pixels[:count],
            "y": labels[:count],
            "x_test": pixels[count:],
            "y_test": labels[count:],
        },
        "python",
        None,
    )


def encoded(data: Dataset | None = None, listener: Listener | None = None, **more) -> Dataset:
    options = DataOptions(**{"source": "python", "encoder": COLOURS, **more})
    brought = data if data is not None or options.source != "python" else source()
    return load_dataset(options, Streams(0), listener, brought=brought)


def vectors(count: int, first: int = 0) -> torch.Tensor:
    """Red and green means, and that of the left half over all colours."""
    numbers = torch.arange(first, first + count) / 255
    columns = [numbers / 2, numbers, torch.zeros(count), numbers / 3]
    return torch.stack(columns, dim=1).half()


def test_features_by_hand_and_what_stays_of_the_source() -> None:
    data = encoded()
    assert data.input_shape == (4,)
    assert data.train.inputs.dtype == torch.float16
    assert torch.allclose(data.train.rows(slice(None)), vectors(40), atol=1e-3)
    assert torch.allclose(data.test.rows(torch.arange(10)), vectors(10, 40), atol=1e-3)
    assert data.train.labels.tolist() == [0, 1] * 20
    assert data.encoder is not None
    assert (data.encoder.size, data.image_shape) == (8, (8, 8, 3))
    plain = data.transform.plain(data.train.rows(slice(None)))
    assert plain.dtype == torch.float32
    assert torch.allclose(plain.mean(0), torch.zeros(4), atol=1e-4)
    assert torch.allclose(plain.std(0, unbiased=False)[:2], torch.ones(2), atol=1e-4)
    assert np.array_equal(data.picture(7), images(8)[7])


def test_nothing_is_encoded_twice(seen: list[int]) -> None:
    encoded()
    assert sum(seen) == 50
    encoded()
    encoded(images=25)
    assert sum(seen) == 50
    encoded(source(count=44, tests=10))  # four more
    assert sum(seen) == 54


def test_only_the_samples_of_the_run_are_encoded(seen: list[int]) -> None:
    data = encoded(images=12, test_images=3)
    assert sum(seen) == 15
    assert data.rows is not None
    assert torch.allclose(data.train.rows(slice(None)), vectors(40)[data.rows], atol=1e-3)
    for place, row in enumerate(data.origin):
        assert np.array_equal(data.picture(place), images(40)[row])
    encoded(images=20, test_images=3)
    assert sum(seen) < 15 + 20


def test_the_same_image_twice_is_one_vector(seen: list[int]) -> None:
    pixels = np.repeat(images(5), 4, axis=0)
    labels = np.arange(20) % 2
    arrays = {"x": pixels, "y": labels, "x_test": pixels, "y_test": labels}
    data = encoded(build_dataset(arrays, "python", None))
    assert sum(seen) == 5
    assert len(data.train.inputs) == 5
    assert torch.equal(data.train.rows(slice(None)), data.test.rows(slice(None)))
    some = data.train.rows(torch.tensor([0, 4, 19]))
    assert torch.allclose(some, vectors(5)[[0, 1, 4]], atol=1e-3)


def test_views_are_encoded_once_each_and_drawn_in_training(seen: list[int]) -> None:
    encoded()
    data = encoded(encoder_views=2)
    assert sum(seen) == 100  # the mirrored images, and nothing again
    assert data.train.places is not None
    assert data.train.places.shape == (40, 2)
    assert torch.allclose(data.train.rows(slice(None)), vectors(40), atol=1e-3)
    mirrored = data.train.inputs[data.train.places[:, 1]]
    wanted = vectors(40)
    wanted[:, 3] = 2 * torch.arange(40) / 255 / 3  # now the left half is the green one
    assert torch.allclose(mirrored, wanted, atol=1e-3)

    from feddiv.data import client_samples, make_draw
    from feddiv.data.noise.labels import NoNoise
    from feddiv.data.partition.even import Iid

    draw = make_draw(data, Iid(), NoNoise(), 2, Streams(0))
    samples = client_samples(data, draw, 0)
    rows = torch.arange(len(samples))
    generator = Streams(0).torch("augment")
    first, second = (samples.augmented(rows, generator) for _ in range(2))
    again = samples.augmented(rows, Streams(0).torch("augment"))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    plain = samples.plain(rows)
    same = (first == plain).all(dim=1)
    assert 0 < int(same.sum()) < len(rows)
    both = samples.followed_by(samples)
    assert torch.equal(both.plain(slice(None)), torch.cat([plain, plain]))


def test_bits_do_not_depend_on_who_encodes_with_whom(monkeypatch: pytest.MonkeyPatch) -> None:
    data = source(count=3000, tests=10)
    first = encoded(data, images=900).train.inputs  # one process
    monkeypatch.setenv("FEDDIV_CACHE", os.environ["FEDDIV_CACHE"] + "2")
    monkeypatch.setattr(processes, "usable_cores", lambda: 2)
    whole = encoded(data)
    part = encoded(data, images=900)
    assert torch.equal(part.train.rows(slice(None)), first[:900])
    assert len(whole.train.inputs) == len(part.train.inputs)


def test_files_are_read_in_the_encoders_size_and_kept_nowhere(
    tmp_path: Path, own_cache: Path
) -> None:
    root = class_folders(tmp_path / "data")
    data = encoded(source="folder", path=root)
    assert data.image_shape == (8, 8, 3)
    assert not (own_cache / "images").exists()
    assert data.picture(0).shape == (8, 8, 3)
    assert data.split_here


def test_files_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    root = class_folders(tmp_path / "data")
    broken = sorted((root / "a").iterdir())[:2]
    for file in broken:
        file.write_text("no image")
    for _ in range(2):  # they are no samples the second time either
        listener = Listener()
        data = encoded(source="folder", path=root, listener=listener)
        assert len(data.train) + len(data.test) == 18
        assert data.originals is not None
        assert len(data.originals.train) == len(data.train)
        assert any("cannot be read, left out: 2 of 20" in line for line in listener.notes)
        for row, label in enumerate(data.train.labels):
            name = data.originals.train.name(row)
            assert name.startswith(data.classes[int(label)])
    for file in root.glob("*/*"):
        file.write_text("no image")
    with pytest.raises(UserError, match=r"none of .* images can be read"):
        encoded(source="folder", path=root)


def test_a_changed_file_is_encoded_anew(tmp_path: Path, seen: list[int]) -> None:
    root = class_folders(tmp_path / "data")
    encoded(source="folder", path=root)
    before = sum(seen)
    file = sorted((root / "a").iterdir())[0]
    picture(file, (1, 2, 3), (9, 9))
    encoded(source="folder", path=root)
    assert sum(seen) == before + 1


def test_what_a_killed_process_has_not_noted_is_dropped(own_cache: Path) -> None:
    data = encoded()
    (store,) = (own_cache / "features").iterdir()
    with (store / "vectors").open("ab") as file:
        file.write(b"half a chunk")
    with (store / "keys").open("ab") as file:
        file.write(b"half")
    again = encoded(source(count=50, tests=10))
    assert torch.equal(again.train.rows(torch.arange(40)), data.train.rows(torch.arange(40)))
    assert torch.allclose(again.train.rows(slice(None)), vectors(50), atol=1e-3)


@pytest.mark.parametrize("row", [0, 39, 45])
def test_a_damaged_cache_is_told_by_its_folder(own_cache: Path, row: int) -> None:
    before = encoded().train.inputs.clone()
    (file,) = own_cache.rglob("vectors")
    good = np.frombuffer(file.read_bytes(), np.float16).reshape(-1, before.shape[1])

    def damage(value: float) -> None:
        whole = good.copy()
        whole[row, -1] = value
        file.write_bytes(whole.tobytes())

    for value in (np.nan, np.inf, -np.inf):
        damage(value)
        with pytest.raises(UserError, match=r"is damaged .* delete the folder") as caught:
            encoded()
        assert str(caught.value).startswith(f"{file.parent}: ")
    damage(-65504)  # the largest number of float16
    encoded()
    shutil.rmtree(file.parent)
    assert torch.equal(encoded().train.inputs, before)


def test_readers_see_no_vector_without_a_key(own_cache: Path) -> None:
    encoded()
    (store,) = (own_cache / "features").iterdir()
    keys = (store / "keys").read_bytes()
    (store / "keys").write_bytes(keys[: 16 * 30])
    assert torch.allclose(encoded().train.rows(slice(None)), vectors(40), atol=1e-3)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"encoder": "tests.encoders.colours:NoNumbers"}, "not finite .* for training image 0"),
        ({"encoder": "tests.encoders.colours:Maps"}, r"no vector .* set data.encoder_pooling"),
        ({"augment": {"flip": True}}, r"data.augment: with data.encoder=.*encoder_views=2"),
        ({"encoder": None, "encoder_size": 96}, "data.encoder_size=96: there is no data.encoder"),
        ({"encoder": None, "encoder_views": 2}, "data.encoder_views=2: there is no data.encoder"),
        ({"encoder_mean": (0.1, 0.2)}, "data.encoder_mean=0.1, 0.2: give 1 number, or 3"),
        ({"encoder_sha256": "0" * 64}, "its weights are others"),
    ],
)
def test_mistakes_in_one_line(more: dict, said: str, own_cache: Path) -> None:
    with pytest.raises(UserError, match=said) as problem:
        encoded(**more)
    assert "\n" not in str(problem.value)
    assert not list(own_cache.rglob("vectors")) or not any(
        path.stat().st_size for path in own_cache.rglob("vectors")
    )


def test_what_is_not_finite_is_named_by_other_processes_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "usable_cores", lambda: 2)
    name = "tests.encoders.colours:NoNumbers"  # blue is missing in the first hundred
    with pytest.raises(UserError, match=r"not finite .* for training image 0$"):
        encoded(source(count=3000, tests=10), encoder=name)


def test_vectors_are_not_encoded_again() -> None:
    numbers = np.random.default_rng(0).random((20, 3)).astype(np.float32)
    labels = np.arange(20) % 2
    arrays = {"x": numbers, "y": labels, "x_test": numbers, "y_test": labels}
    with pytest.raises(UserError, match="are numbers already; an encoder is for images and texts"):
        encoded(build_dataset(arrays, "python", None))


def test_a_full_disk_is_told_before_anything_is_encoded(
    monkeypatch: pytest.MonkeyPatch, seen: list[int]
) -> None:
    monkeypatch.setattr("feddiv.data.encoding.encode.free_bytes", lambda folder: 10)
    with pytest.raises(UserError, match=r"feature vectors take .* FEDDIV_CACHE"):
        encoded()
    assert not seen


SCRIPT = """
import sys, time
import numpy as np
import feddiv.encoders.torch_module as module
from tests.data.encoding.test_encoding import encoded, source

vectors = module.ModuleEncoder.vectors
def slow(self, samples):
    time.sleep(float(sys.argv[2]))
    return vectors(self, samples)
module.ModuleEncoder.vectors = slow
class Tell:
    def note(self, line): print("note", line, flush=True)
    def prepares(self, what, done, total): print(what, done, flush=True)
encoded(source(count=int(sys.argv[1]), tests=1), listener=Tell())
"""


def started(count: int, pause: float) -> subprocess.Popen[str]:
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(count), str(pause)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=root,
    )


def batch() -> int:
    from feddiv.encoders.choice import EncoderChoice

    return make_encoder(EncoderChoice(COLOURS), 4).batch


def stored() -> int:
    from feddiv.encoders.choice import EncoderChoice

    return len(FeatureStore(make_encoder(EncoderChoice(COLOURS), 4)).opened()[0])


@pytest.mark.slow
def test_a_kill_loses_no_more_than_what_is_under_way(
    monkeypatch: pytest.MonkeyPatch, seen: list[int]
) -> None:
    chunk = BATCHES * batch()
    count = 4 * chunk
    process = started(count, 0.05)
    assert process.stdout is not None
    done = 0
    while done < chunk:
        line = process.stdout.readline()
        assert line
        done = done if line.startswith("note") else int(line.split()[-1])
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = stored()
    assert kept >= done
    data = encoded(source(count=count, tests=1))
    assert sum(seen) == count + 1 - kept
    assert len(data.train) == count


@pytest.mark.slow
def test_two_processes_at_once_encode_everything_once() -> None:
    both = [started(600, 0.2) for _ in range(2)]
    told = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert stored() == len(np.unique(images(601), axis=0))
    assert sum("waiting for it" in text for text in told) <= 1
    assert sum("encoding training samples" in text for text in told) == 1


def test_time_is_not_lost_on_what_is_there(own_cache: Path) -> None:
    data = source(count=2000, tests=100)
    encoded(data)
    begun = time.process_time()
    encoded(data)
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Nothing", "gives vectors without a single feature"),
        ("Uneven", "gives 3 features for some samples and 2 for others"),
    ],
)
def test_vectors_of_no_or_of_another_length_are_refused(name: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        encoded(encoder=f"tests.encoders.colours:{name}")


@pytest.mark.parametrize("byte", [7, 8, 15])
def test_a_damaged_key_costs_its_vector_and_no_other(own_cache: Path, byte: int) -> None:
    encoded()
    [keys] = own_cache.glob("features/*/keys")
    content = bytearray(keys.read_bytes())
    content[16 * 3 + byte] ^= 1
    keys.write_bytes(content)
    for _ in range(2):
        again = encoded()
        assert torch.allclose(again.train.rows(slice(None)), vectors(40), atol=1e-3)
    assert len(keys.read_bytes()) == 16 * 51
