"""Whatever bytes come, a parser gives a value or a user's error, and nothing else."""

import gzip
import io
import json
import struct
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.fuzz.fuzzed import FEW_AND_MANY, as_file, fine_or_refused, fuzzed, spoilt

from feddiv.audits.exchange.site_files import import_file
from feddiv.audits.folder import read_audit, was_encoded
from feddiv.audits.label_audit import COLUMNS as LISTED
from feddiv.config.reading import load_experiment, parsed
from feddiv.core.archives import read_npy, read_npz
from feddiv.core.files import save_tensors, write_text
from feddiv.core.randomness import Streams
from feddiv.data import DataOptions
from feddiv.data.corrections import Decision, DecisionKind, Subject, append
from feddiv.data.corrections import read as read_decisions
from feddiv.data.corrections.file import HEADER
from feddiv.data.draw.draw import Draw
from feddiv.data.images.decode import Decoder
from feddiv.data.images.listing import Files
from feddiv.data.published.unpack import unpack
from feddiv.data.sources import load_dataset
from feddiv.data.sources.mnist import read_idx
from feddiv.data.texts.files import read_text
from feddiv.encoders.tokens import read_tokenizer
from feddiv.nets import ModelOptions
from feddiv.nets.build import build_net
from feddiv.runs.model import flat, load_model
from feddiv.tables.sweep_file import read_sweep
from feddiv.tables.verb import table_of


def archive() -> bytes:
    content = io.BytesIO()
    np.savez_compressed(
        content,
        x=np.arange(120, dtype=np.float32).reshape(40, 3),
        y=np.arange(40) % 4,
        classes=np.array(["a", "b", "c", "d"]),
    )
    return content.getvalue()


def plain_archive() -> bytes:
    content = io.BytesIO()
    np.savez(content, x=np.arange(96, dtype=np.uint8).reshape(24, 2, 2), y=np.arange(24) % 2)
    return content.getvalue()


def array() -> bytes:
    content = io.BytesIO()
    np.save(content, np.arange(12.0).reshape(3, 4))
    return content.getvalue()


def picture(kind: str) -> bytes:
    content = io.BytesIO()
    Image.fromarray(np.arange(768, dtype=np.uint8).reshape(16, 16, 3)).save(content, kind)
    return content.getvalue()


TABLE = ("a,b,label\n" + "".join(f"{n % 7}.5,{n},{'xy'[n % 2]}\n" for n in range(30))).encode()
TOML = b"""base = "quickstart"
rounds = 12
against = ["fedavg", "feddiv-paper"]
[train]
lr = 0.05
epochs = 2
[noise]
name = "symmetric"
rho = 0.5
tau = 0.3
[data]
augment = {pad = 1, flip = false}
[method]
name = "feddiv"
filter = {em_steps = 5}
"""
IDX = bytes([0, 0, 8, 3]) + struct.pack(">III", 4, 28, 28) + bytes(4 * 28 * 28)


def loaded(source: str, path: Path) -> object:
    return load_dataset(DataOptions(source=source, path=path), Streams(0))


SWEEP = b"""description = "mine"
seeds = [0, 1]
keep = "rows"
[settings]
"IID" = "quickstart"
mild = { base = "quickstart", paper = "cifar10-iid-0.8-0.5", noise = { rho = 0.4 } }
[methods]
"FedAvg" = "fedavg"
mine = { name = "feddiv-paper", filter = { fit = "global" } }
[options]
rounds = 20
"""


@FEW_AND_MANY
def test_sweeps(how):
    @fuzzed(how)
    @given(spoilt(SWEEP) | st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
    def check(content):
        with as_file(content, "mine.toml") as path:
            fine_or_refused(lambda: read_sweep(path))

    check()


def result_rows() -> bytes:
    lines = []
    for seed in range(2):
        experiment = load_experiment("quickstart", {"seed": seed, "method.name": "feddiv-paper"})
        summary = {"best_test_accuracy": 0.5, "seconds": 3.0, "rounds": 3, "filter": {"f1": 0.5}}
        row = {
            "setting": "a",
            "method": "b",
            "seed": seed,
            "options": experiment.model_dump(mode="json", exclude_none=True),
            "summary": {**summary, "draw": "x", "wrong": 0.5},
            "test_accuracy": [0.1, None, 0.5],
            "paper": "cifar10-iid-0.8-0.5",
        }
        lines.append(json.dumps(row) + "\n")
    return "".join(lines).encode()


@FEW_AND_MANY
def test_tables_of_rows(how):
    @fuzzed(how)
    @given(spoilt(result_rows()))
    def check(content):
        with as_file(content, "rows.jsonl") as path:
            for kind in ("md", "csv", "latex"):
                fine_or_refused(lambda kind=kind: table_of([path], kind, paper=True))

    check()


@FEW_AND_MANY
def test_configs(how):
    @fuzzed(how)
    @given(spoilt(TOML) | st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
    def check(content):
        with as_file(content, "mine.toml") as path:
            fine_or_refused(lambda: load_experiment(path))

    check()


@FEW_AND_MANY
def test_settings(how):
    keys = st.sampled_from(
        ("rounds", "train.lr", "noise.kinds", "against", "method.name", "data", "partition.name",
         "noise.levels", "data.shape", "data.classes", "method.filter", "evaluation.name")
    ) | st.text(max_size=20)  # fmt: skip
    values = st.text(max_size=30) | st.text(alphabet="[]{}='\"#.,1e-_\n", max_size=20)

    @fuzzed(how)
    @given(st.lists(st.tuples(keys, values), min_size=1, max_size=3))
    def check(pairs):
        settings = [f"{key}={value}" for key, value in pairs]
        fine_or_refused(lambda: [parsed(each) for each in settings])
        fine_or_refused(lambda: load_experiment("quickstart", settings))

    check()


@FEW_AND_MANY
def test_archives(how):
    @fuzzed(how)
    @given(spoilt(archive()) | spoilt(plain_archive()) | st.binary(max_size=200))
    def check(content):
        with as_file(content, "mine.npz") as path:
            fine_or_refused(lambda: read_npz(path, "data.path"))
            fine_or_refused(lambda: loaded("npz", path))
            fine_or_refused(lambda: Draw.load(path))

    check()


@FEW_AND_MANY
def test_arrays(how):
    @fuzzed(how)
    @given(spoilt(array()) | st.binary(max_size=200))
    def check(content):
        with as_file(content, "mine.npy") as path:
            fine_or_refused(lambda: read_npy(path, "--data"))

    check()


@FEW_AND_MANY
def test_tables(how):
    @fuzzed(how)
    @given(spoilt(TABLE) | st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
    def check(content):
        with as_file(content, "mine.csv") as path:
            fine_or_refused(lambda: loaded("table", path))

    check()


@FEW_AND_MANY
def test_parquet(how):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    content = io.BytesIO()
    table = {"a": [n / 2 for n in range(30)], "label": ["xy"[n % 2] for n in range(30)]}
    parquet.write_table(pyarrow.table(table), content)

    @fuzzed(how)
    @given(spoilt(content.getvalue()) | st.binary(max_size=200))
    def check(content):
        with as_file(content, "mine.parquet") as path:
            fine_or_refused(lambda: loaded("table", path))

    check()


@FEW_AND_MANY
def test_texts(how):
    @fuzzed(how)
    @given(spoilt("Grüße, 三\n".encode()) | st.binary(max_size=200) | st.text().map(str.encode))
    def check(content):
        with as_file(content, "mine.txt") as path:
            fine_or_refused(lambda: read_text(path))

    check()


CARD = {
    "net": "linear",
    "input_shape": [4],
    "classes": ["ant", "bee"],
    "mean": [0.5],
    "std": [0.25],
    "method": {"name": "fedavg"},
}
OF_TEXTS = {"name": "wordllama", "sha256": "0" * 64}
OF_IMAGES = {**OF_TEXTS, "name": "gone.onnx", "size": 8, "mean": [0.5], "std": [1.0]}


@FEW_AND_MANY
def test_headers_of_models(how):
    """Any field, also of the encoder, may be any JSON."""
    plain = st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=5)
    json_values = st.recursive(
        plain | st.sampled_from(("mean", "0" * 64, "wordllama")),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=4,
    )
    encoders = st.sampled_from((*OF_IMAGES, "pooling", "views", "colour"))
    changes = st.dictionaries(encoders, json_values, max_size=2)
    cards = st.dictionaries(
        st.sampled_from((*CARD, "encoder", "image_shape", "stem")), json_values, max_size=1
    )
    whole = st.sampled_from(((None, OF_TEXTS), ([8, 8, 3], OF_IMAGES)))
    weights = flat({"net": build_net(ModelOptions(name="linear"), (4,), 2).state_dict()})

    @fuzzed(how)
    @given(whole, changes, cards)
    def check(good, encoder, card):
        shape, choice = good
        header = {**CARD, "image_shape": shape, "encoder": {**choice, **encoder}, **card}
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.safetensors"
            save_tensors(file, weights, {"feddiv": json.dumps(header)})
            fine_or_refused(lambda: load_model(file))

    check()


@FEW_AND_MANY
def test_tokenizers(how):
    tokenizers = pytest.importorskip("tokenizers", reason="no tokenizers, the extra encoders")
    words = tokenizers.models.WordLevel({"[UNK]": 0, "one": 1}, unk_token="[UNK]")
    good = tokenizers.Tokenizer(words).to_str().encode()

    @fuzzed(how)
    @given(spoilt(good) | st.binary(max_size=200))
    def check(content):
        fine_or_refused(lambda: read_tokenizer(content, "mine.onnx", Path("tokenizer.json")))

    check()


@FEW_AND_MANY
def test_wheels(how):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("set/one"), b"abc" * 30)

    @fuzzed(how)
    @given(spoilt(packed.getvalue()) | st.binary(max_size=200))
    def check(content):
        with as_file(content, "mine.whl") as path:
            (path.parent / "into").mkdir()
            fine_or_refused(lambda: unpack(path, path.parent / "into", {"set/one": 90}))

    check()


@FEW_AND_MANY
def test_idx(how):
    @fuzzed(how)
    @given(spoilt(IDX), st.booleans(), st.sampled_from((1, 3)))
    def check(content, zipped, dimensions):
        name = "images.gz" if zipped else "images"
        with as_file(gzip.compress(content, 1) if zipped else content, name) as path:
            fine_or_refused(lambda: read_idx(path, dimensions))

    check()


@FEW_AND_MANY
def test_gzip(how):
    @fuzzed(how)
    @given(spoilt(gzip.compress(IDX)))
    def check(content):
        with as_file(content, "images.gz") as path:
            fine_or_refused(lambda: read_idx(path, 3))

    check()


@FEW_AND_MANY
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_images(how, kind):
    """An image that is no image is noted by its row; it never ends the decoding."""

    @fuzzed(how)
    @given(spoilt(picture(kind)))
    def check(content):
        with as_file(content, "0.img") as path, as_file(bytes(4 * 4 * 3), "pixels") as pixels:
            decoder = Decoder(Files(path.parent, (path.name,)), pixels, side=4, channels=3)
            block = decoder(0)
            assert block.end == 1
            assert set(block.unreadable) <= {0}
            assert pixels.stat().st_size == 48

    check()


def _decisions() -> bytes:
    row = "{},cat,correct,dog,ann,2026-01-02T03:04:05.678901Z\n"
    return (HEADER.decode() + row.format("a.png") + row.format('"b ""1""\n.png"')).encode()


def _label_studio() -> bytes:
    result = {"from_name": "label", "type": "choices", "value": {"choices": ["dog"]}}
    annotation = {"completed_by": 3, "was_cancelled": False, "result": [result]}
    return json.dumps([{"data": {"sample": "a.png"}, "annotations": [annotation]}]).encode()


def _cvat(listed: bool) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        if listed:
            packed.writestr("synsets.txt", "cat\ndog\n")
            packed.writestr("default.txt", 'a.png 1\n"b 1".png 0\n')
        else:
            packed.writestr("dog/dog_a.png.png", b"image")
    return content.getvalue()


@FEW_AND_MANY
def test_corrections(how):
    subject = Subject.of(["a.png", 'b "1"\n.png'], ["cat", "cat"], ["cat", "dog"])

    @fuzzed(how)
    @given(spoilt(_decisions()), st.booleans())
    def check(content, known):
        with as_file(content, "corrections.csv") as path:
            fine_or_refused(lambda: read_decisions(path, subject if known else None))
            row = Decision("a.png", "cat", DecisionKind.SKIP, "", "ann", "2026-01-02T03:04:05Z")
            fine_or_refused(lambda: append(path, [row]))

    check()


@FEW_AND_MANY
@pytest.mark.parametrize(
    "whole", [_label_studio(), _cvat(True), _cvat(False), b"sample,label\na.png,dog\n"]
)
def test_files_of_annotation_tools(how, whole, tmp_path):
    write_text(tmp_path / "labels.csv", ",".join(LISTED) + "\na.png,cat,dog,0.1,True,0.9,review\n")

    @fuzzed(how)
    @given(spoilt(whole))
    def check(content):
        with as_file(content, "back") as path:
            fine_or_refused(lambda: import_file(tmp_path, path, "ann", confirm=True))

    check()


@FEW_AND_MANY
@pytest.mark.parametrize("name", ["labels.csv", "audit.json"])
def test_audits_of_sites(how, name, tmp_path):
    rows = "a.png,cat,dog,0.1,True,0.9,review\nb.png,dog,dog,0.9,False,0.8,keep\n"
    facts = {"site": "n", "classes": ["cat", "dog"], "data": "/x", "wrong_share": [0.5, 0.4, 0.6]}
    write_text(tmp_path / "labels.csv", f"{','.join(LISTED)}\n{rows}")
    write_text(tmp_path / "audit.json", json.dumps(facts))

    @fuzzed(how)
    @given(spoilt((tmp_path / name).read_bytes()))
    def check(content):
        with as_file(content, name) as path:
            other = "audit.json" if name == "labels.csv" else "labels.csv"
            (path.parent / other).write_bytes((tmp_path / other).read_bytes())
            fine_or_refused(lambda: judged(path.parent))

    def judged(folder):
        audit, _ = read_audit(folder)
        was_encoded(folder)
        return audit.columns(), audit.estimate

    check()
