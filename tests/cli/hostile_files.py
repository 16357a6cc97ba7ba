"""Files that nobody should be able to hurt us with, made once in a folder of their own."""

import gzip
import io
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image

DEEP: Final = 100_000  # levels of nesting
GIGABYTE: Final = 1 << 30


def make(folder: Path, model: Path) -> None:
    """All of them; `model` is the folder of a finished run."""
    for name, content in (TOML | JSON | TABLES | IMAGES | ARRAYS).items():
        (folder / name).write_bytes(content() if callable(content) else content)
    for name in ("huge.toml", "huge.csv", "huge.npz", "huge.npy", "huge.png", "huge.parquet"):
        with (folder / name).open("wb") as file:
            file.truncate(8 * GIGABYTE)  # holes: it takes no room
    for ending in ("toml", "npz", "npy", "csv", "parquet", "png", "safetensors"):
        os.mkfifo(folder / f"pipe.{ending}")
        (folder / f"folder.{ending}").mkdir()
        (folder / f"zero.{ending}").symlink_to("/dev/zero")
        (folder / f"random.{ending}").symlink_to("/dev/random")
        (folder / f"circle.{ending}").symlink_to(folder / f"circle.{ending}")
        (folder / f"full.{ending}").symlink_to("/dev/full")
    _folders(folder)
    _runs(folder, model)
    _models(folder, model)
    _idx(folder)


def _nested_toml(opening: str, closing: str) -> bytes:
    return f"rounds = {opening * DEEP}{closing * DEEP}\n".encode()


TOML: dict[str, Any] = {
    "deep-lists.toml": _nested_toml("[", "]"),
    "deep-tables.toml": _nested_toml("{a=", "}"),
    "open-lists.toml": _nested_toml("[", ""),
    "deep-keys.toml": b".".join([b"a"] * DEEP) + b" = 1\n",
    "deep-sections.toml": b"[" + b".".join([b"a"] * DEEP) + b"]\n",
    "many-keys.toml": lambda: b"".join(b"k%d = 1\n" % key for key in range(200_000)),
    "many-sections.toml": lambda: b"".join(b"[s%d]\n" % key for key in range(100_000)),
    "long-number.toml": b"rounds = " + b"9" * 1_000_000 + b"\n",
    "long-hex.toml": b"rounds = 0x" + b"f" * 1_000_000 + b"\n",
    "long-float.toml": b"rounds = 1e" + b"9" * 100_000 + b"\n",
    "long-text.toml": b"description = '" + b"x" * 5_000_000 + b"'\nrounds = 0\n",
    "long-key.toml": b"k" * 5_000_000 + b" = 1\n",
    "million-classes.toml": lambda: (
        b"[data]\nsource='sites'\nfeatures=4\nclasses = ["
        + b",".join(b"'c%d'" % number for number in range(1_000_000))
        + b"]\n[partition]\nname='natural'\n[noise]\nname='none'\n"
    ),
    "nul.toml": b"rounds = 5\0\n",
    "utf16.toml": "rounds = 5\n".encode("utf-16"),
    "latin.toml": b"description = '\xe4'\n",
    "escape.toml": b"\x1b[2J = 1\n",
    "escaped.toml": b'"\\u001b[2Jred" = 1\n',
    "newline-key.toml": b'"a\\nfeddiv: forged" = 1\n',
    "base-itself.toml": b"base = 'base-itself.toml'\n",
    "base-number.toml": b"base = 7\n",
    "base-list.toml": b"base = [[1]]\n",
    "section-value.toml": b"method = 3\npartition = 4\nnoise = 5\n",
    "list-sections.toml": b"[[method]]\nname='feddiv'\n",
    "list-data.toml": b"[[data]]\nsource='digits'\n",
    "date.toml": b"rounds = 1979-05-27T07:32:00Z\n",
    "name-table.toml": b"[method.name]\na=1\n",
    "noise-table.toml": b"[noise.name]\na=1\n",
    "kinds.toml": b"[noise]\nname='mixed'\nkinds=[[],{},3]\n",
    "kinds-deep.toml": b"[noise]\nname='mixed'\nkinds=" + b"[" * 500 + b"]" * 500 + b"\n",
    "map.toml": b"[noise]\nname='pair'\nrho=1.0\nmap={'0'='zebra'}\n",
    "empty-key.toml": b'"" = 1\n',
    "clients-list.toml": b"clients = [1,2]\n",
    "against.toml": b"against = [[['fedavg']]]\n",
}
JSON: dict[str, Any] = {
    "deep.json": b"[" * DEEP + b"]" * DEEP,
}


def _png(width: int, height: int, data: bytes = b"") -> bytes:
    """A PNG whose header asks for so many pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def _image(kind: str) -> bytes:
    content = io.BytesIO()
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(content, kind)
    return content.getvalue()


IMAGES: dict[str, Any] = {
    "bomb.png": lambda: _png(60_000, 60_000, zlib.compress(bytes(1_000_000), 9)),
    "wide.png": lambda: _png(2**31 - 1, 1),
    "large.png": lambda: _png(12_000, 12_000, zlib.compress(bytes(12_000 * 36_001), 1)),
    "lying.png": lambda: _png(13_000, 13_000, zlib.compress(b"")),
    "nothing.png": b"",
    "cut.png": lambda: _image("PNG")[:60],
    "text.png": b"hello",
    "bad-zlib.png": lambda: _png(8, 8, b"\xff" * 100),
    "cut.jpg": lambda: _image("JPEG")[:200],
    "bomb.gif": b"GIF89a" + struct.pack("<HH", 65535, 65535) + b"\x00\x00\x00,"
    + struct.pack("<HHHH", 0, 0, 65535, 65535) + b"\x00\x08\x00;",
    "bomb.bmp": b"BM" + struct.pack("<IHHI", 54, 0, 0, 54)
    + struct.pack("<IiiHHIIiiII", 40, 100_000, 100_000, 1, 24, 0, 0, 0, 0, 0, 0),
    "bomb.tiff": b"II*\0\x08\0\0\0" + b"\xff\xff" + b"\0" * 100,
    "bomb.ppm": b"P6\n100000 100000\n255\n",
    "eps.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
    "polyglot.png": lambda: _image("PNG") + b"PK\x05\x06" + b"\0" * 18,
}  # fmt: skip


def _csv(rows: int = 40) -> bytes:
    lines = [f"{row % 7},{row % 5},{'ab'[row % 2]}\n" for row in range(rows)]
    return ("a,b,label\n" + "".join(lines)).encode()


TABLES: dict[str, Any] = {
    "one-line.csv": lambda: b"x" * 20_000_000,
    "one-cell.csv": lambda: _csv() + b'1,2,"' + b"y" * 2_000_000 + b'"\n',
    "open-quote.csv": lambda: _csv() + b'1,2,"a\n' + b"1,2,b\n" * 200_000,
    "nul.csv": lambda: _csv() + b"1,2\0,a\n",
    "nul-head.csv": b"a,b\0,label\n1,2,a\n",
    "columns.csv": lambda: b",".join(b"c%d" % n for n in range(100_000)) + b"\n1,2\n",
    "commas.csv": lambda: b"," * 5_000_000 + b"\n",
    "same-names.csv": b"a,a,label\n1,2,x\n",
    "words.csv": lambda: _csv() + b"three,2,a\n",
    "infinite.csv": lambda: _csv() + b"inf,2,a\n",
    "large-numbers.csv": lambda: _csv() + b"1e400,2,a\n",
    "long-number.csv": lambda: _csv() + b"9" * 100_000 + b",2,a\n",
    "unicode-digits.csv": lambda: b"a,b,label\n" + "١,٢,x\n٣,٤,y\n".encode() * 3 + b"q,1,x\n",
    "binary.csv": bytes(range(256)) * 50,
    "utf16.csv": "a,b,label\n1,2,x\n".encode("utf-16"),
    "latin.csv": lambda: _csv() + b"1,2,\xe4\n",
    "many-classes.csv": lambda: (
        b"a,b,label\n" + b"".join(b"1,2,c%d\n" % number for number in range(150_000))
    ),
    "escape.csv": lambda: _csv() + b"1,\x1b[2J,a\n",
    "empty.csv": b"",
    "head.csv": b"a,b,label\n",
    "bom.csv": b"\xef\xbb\xbf",
    "no-label.csv": b"a,b\n1,2\n",
    "images-devices.csv": b"image,label\n/dev/zero,a\n/dev/random,b\n" * 20,
    "images-pipe.csv": b"image,label\npipe.png,a\npipe.png,b\n" * 20,
    "images-nul.csv": b"image,label\nx\0y,a\n",
    "images-bombs.csv": b"image,label\nbomb.png,a\nlarge.png,b\n" * 20,
    "images-long.csv": b"image,label\n" + (b"n" * 5000 + b",a\n" + b"m" * 5000 + b",b\n") * 20,
    "garbage.parquet": b"PAR1" + bytes(range(256)) * 20 + b"\x10\x00\x00\x00PAR1",
    "huge-footer.parquet": b"PAR1" + b"\0" * 40 + b"\xff\xff\xff\x7fPAR1",
    "minus-footer.parquet": b"PAR1" + b"\0" * 40 + b"\xff\xff\xff\xffPAR1",
    "empty.parquet": b"",
    "text.parquet": b"a,b,label\n1,2,x\n",
}


def _npy(header: str | bytes, data: bytes = b"", version: int = 1) -> bytes:
    text = header if isinstance(header, bytes) else header.encode("latin-1")
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + data


def npy_of(shape: str, descr: str = "'<f8'", data: bytes = bytes(64)) -> bytes:
    """An .npy file whose header says this."""
    return _npy(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n", data)


def _npz(**members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members.items():
            archive.writestr(f"{name}.npy", member)
    return content.getvalue()


def _plain(**arrays: Any) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


HEADERS: dict[str, bytes] = {
    "huge-shape": npy_of("(1000000000000,)"),
    "overflow-shape": npy_of("(9223372036854775807, 9223372036854775807)"),
    "beyond-shape": npy_of("(" + "9" * 500 + ",)"),
    "negative-shape": npy_of("(-4, 2)"),
    "many-dimensions": npy_of("(" + "1," * 3000 + ")"),
    "sixty-five-dimensions": npy_of("(" + "1," * 65 + ")"),
    "bool-shape": npy_of("(True, 2)"),
    "list-shape": npy_of("[2, 2]"),
    "objects": npy_of("(2,)", "'|O'"),
    "structure": npy_of("(2,)", "[('a', '<f8'), ('b', '<f8')]"),
    "subarray": npy_of("(2,)", "('<f8', (1000000, 1000000))"),
    "empty-type": npy_of("(9,)", "'|V0'"),
    "text-type": npy_of("(2,)", "'<U2147483647'"),
    "unknown-type": npy_of("(2,)", "'<z9'"),
    "comma-type": npy_of("(2,)", "'f8,f8,f8'"),
    "no-shape": _npy("{'descr': '<f8', 'fortran_order': False}\n"),
    "extra-key": _npy("{'descr':'<f8','fortran_order':False,'shape':(1,),'x':1}\n"),
    "set-header": _npy("{1,2}\n"),
    "brackets": _npy(b"(" * 9000 + b"\n"),
    "deep": _npy(b"{'descr':" + b"[" * 2000 + b"]" * 2000 + b"}\n"),
    "deep-minus": _npy(b"{'shape':" + b"-" * 9000 + b"1}\n"),
    "long-header": _npy(b"{" + b" " * 2_000_000 + b"}\n", version=2),
    "lying-header": b"\x93NUMPY\x02\x00\xff\xff\xff\x7f",
    "quote": _npy(b"{'descr: 3\n"),
    "nul": _npy(b"{'descr':\0}\n"),
    "tokens": _npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (10L,\n"),
    "no-newline": _npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}"),
    "version-9": b"\x93NUMPY\x09\x00\x10\x00" + b"x" * 16,
    "cut": b"\x93NUM",
    "pickle": b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00.",
    "nothing": b"",
    "cut-data": npy_of("(100,)", data=bytes(24)),
}
LABELS = npy_of("(8,)", "'<i8'")


def _bomb() -> bytes:
    """Three megabytes that unpack to three gigabytes of one array."""
    size = 3 * GIGABYTE
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = packer.compress(npy_of(f"({size},)", "'|u1'", b"")) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = head + block * (size >> 20) + packer.flush()
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("x.npy", packed)
        archive.writestr("y.npy", LABELS)
    whole = bytearray(content.getvalue())
    for mark, method, length in ((b"PK\x03\x04", 8, 22), (b"PK\x01\x02", 10, 24)):
        place = whole.index(mark)
        struct.pack_into("<H", whole, place + method, zipfile.ZIP_DEFLATED)
        struct.pack_into("<I", whole, place + length, size + 200)
    return bytes(whole)


def _lying_zip() -> bytes:
    """A central directory that promises 4 TB."""
    content = bytearray(_npz(x=npy_of("(8,)"), y=LABELS))
    place = content.index(b"PK\x01\x02")
    content[place + 24 : place + 28] = b"\xfe\xff\xff\xff"
    return bytes(content)


ARRAYS: dict[str, Any] = (
    {f"{name}.npy": content for name, content in HEADERS.items()}
    | {f"{name}.npz": (lambda c=content: _npz(x=c, y=LABELS)) for name, content in HEADERS.items()}
    | {
        "bomb.npz": _bomb,
        "lying.npz": _lying_zip,
        "many-members.npz": lambda: _npz(**{f"m{n}": npy_of("(8,)") for n in range(20_000)}),
        "encrypted.npz": lambda: _flagged(),
        "quoted.npz": lambda: _npz(**{"../../etc/x": npy_of("(8,)"), "y": LABELS}),
        "twice.npz": lambda: _twice(),
        "cut-off.npz": lambda: _plain(x=np.zeros((40, 4)), y=np.arange(40) % 4)[:-30],
        "polyglot.npz": lambda: b"\x89PNG\r\n\x1a\n" + b"PK\x05\x06" + b"\0" * 18,
        "million-classes.npz": lambda: _plain(
            x=np.zeros((1_000_000, 1), np.float32), y=np.arange(1_000_000)
        ),
        "names.npz": lambda: _plain(
            x=np.zeros((8, 2), np.float32), y=np.arange(8) % 2,
            classes=np.array(["a\x1b[2J\nfeddiv: forged"] * 2),
        ),
        "minus.npz": lambda: _plain(x=np.zeros((8, 2)), y=np.full(8, -(2**63))),
        "unsigned.npz": lambda: _plain(x=np.zeros((8, 2)), y=np.full(8, 2**64 - 1, np.uint64)),
        "thin.npz": lambda: _plain(x=np.zeros((8, 2**22), np.uint8), y=np.arange(8) % 2),
        "no-width.npz": lambda: _plain(x=np.zeros((8, 0)), y=np.arange(8) % 2),
        "no-pixels.npz": lambda: _plain(x=np.zeros((8, 0, 4), np.uint8), y=np.arange(8) % 2),
        "long-text.npz": lambda: _plain(
            x=np.zeros((8, 2)), y=np.array(["a", "b" * 1_000_000] * 4)
        ),
    }
)  # fmt: skip


def _flagged() -> bytes:
    content = bytearray(_npz(x=npy_of("(8,)"), y=LABELS))
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + offset] |= 1
    return bytes(content)


def _twice() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for _ in range(2):
            archive.writestr("x.npy", npy_of("(8,)"))
    return content.getvalue()


def _folders(folder: Path) -> None:
    """Folders of images that are none."""

    def tree(name: str, fill: Callable[[Path, int], None]) -> None:
        for label in ("a", "b"):
            (folder / name / label).mkdir(parents=True)
            for number in range(12):
                fill(folder / name / label / f"{number}.png", number)

    for name in ("bomb.png", "lying.png", "nothing.png", "text.png", "eps.png", "bad-zlib.png"):
        content = (folder / name).read_bytes()
        tree(f"images-{name[:-4]}", lambda file, _, content=content: file.write_bytes(content))
    tree("images-pipes", lambda file, _: os.mkfifo(file))
    tree("images-links", lambda file, _: file.symlink_to("/dev/zero"))
    tree("images-circles", lambda file, _: file.symlink_to(file))
    tree("images-folders", lambda file, _: file.mkdir())
    (folder / "cycle" / "a").mkdir(parents=True)
    (folder / "cycle" / "a" / "up").symlink_to(folder / "cycle")
    (folder / "cycle" / "b").symlink_to(folder / "cycle" / "a")
    nested = folder / "deep"
    nested.mkdir()
    descriptor = os.open(nested, os.O_RDONLY)
    # Longer than any path may be, and not too deep for pytest to remove it some day.
    for _ in range(500):
        os.mkdir("deep-deep", dir_fd=descriptor)
        below = os.open("deep-deep", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.close(descriptor)
    (folder / "empty").mkdir()
    odd = folder / "odd-names"
    for label in ("a\x1b[2J", "b\nfeddiv: forged"):
        (odd / label).mkdir(parents=True)
        (odd / label / "x.png").write_bytes(b"no image")
    (odd / os.fsdecode(b"\xff\xfe")).mkdir()
    (odd / os.fsdecode(b"\xff\xfe") / "x.png").write_bytes(b"no image")
    clothes = folder / "clothes"
    (clothes / "images").mkdir(parents=True)
    for name in ("noisy_label_kv", "noisy_train_key_list", "clean_label_kv", "clean_test_key_list"):
        (clothes / f"{name}.txt").symlink_to("/dev/zero")


def _runs(folder: Path, model: Path) -> None:
    """Run folders whose files are not what they should be."""

    def spoilt(name: str, **files: bytes | str) -> None:
        place = folder / f"run-{name}"
        place.mkdir()
        for kind in ("config.toml", "draw.npz", "environment.json", "summary.json"):
            (place / kind).write_bytes((model / kind).read_bytes())
        for kind, content in files.items():
            file = place / kind.replace("__", ".")
            file.unlink(missing_ok=True)
            if isinstance(content, bytes):
                file.write_bytes(content)
            elif content == "pipe":
                os.mkfifo(file)
            elif content == "folder":
                file.mkdir()
            else:
                file.symlink_to(content)

    spoilt("config-deep", config__toml=TOML["deep-lists.toml"])
    spoilt("config-pipe", config__toml="pipe")
    spoilt("config-zero", config__toml="/dev/zero")
    spoilt("config-folder", config__toml="folder")
    spoilt("config-empty", config__toml=b"")
    spoilt("config-nul", config__toml=b"\0" * 100)
    spoilt("draw-pipe", draw__npz="pipe")
    spoilt("draw-zero", draw__npz="/dev/zero")
    spoilt("draw-bomb", draw__npz=_bomb())
    spoilt("draw-empty", draw__npz=b"")
    spoilt("draw-text", draw__npz=b"PK\x03\x04 no more")
    recipe = np.array("[" * DEEP + "]" * DEEP)
    with np.load(model / "draw.npz", allow_pickle=False) as draw:
        spoilt("draw-recipe", draw__npz=_plain(**{**dict(draw), "recipe": recipe}))
        huge = np.array([0, 2**62], np.int64)
        spoilt("draw-offsets", draw__npz=_plain(**{**dict(draw), "offsets": huge}))


def _models(folder: Path, model: Path) -> None:
    """Models whose header is a lie."""

    def written(name: str, header: bytes, data: bytes = b"", length: int | None = None) -> None:
        said = struct.pack("<Q", len(header) if length is None else length)
        (folder / f"{name}.safetensors").write_bytes(said + header + data)

    def carded(name: str, card: str | bytes) -> None:
        content = (model / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8 : 8 + size])
        header["__metadata__"] = {"feddiv": card if isinstance(card, str) else card.decode()}
        written(name, json.dumps(header).encode(), content[8 + size :])

    content = (model / "model.safetensors").read_bytes()
    card = json.loads(
        json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])["__metadata__"]["feddiv"]
    )
    written("long-header", b"{}", length=2**63)
    written("deep-header", b"[" * DEEP + b"]" * DEEP)
    written(
        "huge-tensor",
        b'{"a":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4]}}',
        bytes(4),
    )
    written("minus", b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}', bytes(4))
    written("empty-header", b"{}")
    carded("deep-card", "[" * DEEP + "]" * DEEP)
    carded("list-card", "[]")
    carded("number-card", "1" * 50_000)
    carded("empty-card", "")
    carded("null-card", "null")
    carded("classes-card", json.dumps({**card, "classes": ["c"] * 1_000_000}))
    carded("shape-card", json.dumps({**card, "input_shape": [1, 100_000, 100_000]}))
    carded("float-shape-card", json.dumps({**card, "input_shape": [1.5, 8, 8]}))
    carded("minus-shape-card", json.dumps({**card, "input_shape": [1, -8, 8]}))
    carded("text-shape-card", json.dumps({**card, "input_shape": "888"}))
    carded("net-card", json.dumps({**card, "net": {"a": 1}}))
    carded("method-card", json.dumps({**card, "method": 3}))
    carded("method-list-card", json.dumps({**card, "method": {"name": ["feddiv"]}}))
    carded("mean-card", json.dumps({**card, "mean": [[1]], "std": ["x"]}))
    (folder / "cut.safetensors").write_bytes(content[:-100])
    (folder / "nothing.safetensors").write_bytes(b"")
    (folder / "good.safetensors").write_bytes(content)


def _idx(folder: Path) -> None:
    """MNIST's files with other contents."""
    names = [
        f"{part}-{kind}" for part in ("train", "t10k")
        for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
    ]  # fmt: skip

    def mnist(name: str, content: Callable[[int], bytes], ending: str = "") -> None:
        place = folder / f"idx-{name}" / "mnist"
        place.mkdir(parents=True)
        for each in names:
            dimensions = 3 if "idx3" in each else 1
            (place / f"{each}{ending}").write_bytes(content(dimensions))

    def header(dimensions: int, size: int) -> bytes:
        return bytes([0, 0, 8, dimensions]) + struct.pack(">I", size) * dimensions

    mnist("huge", lambda d: header(d, 2**32 - 1) + bytes(50))
    mnist("cut", lambda d: header(d, 28)[:6])
    mnist("nothing", lambda d: b"")
    mnist("zero", lambda d: header(d, 0))
    mnist("text", lambda d: b"<html>log in</html>")
    mnist("gzip-cut", lambda d: gzip.compress(header(d, 28) + bytes(30_000))[:-20], ".gz")
    mnist("gzip-text", lambda d: b"hello", ".gz")
    packer = zlib.compressobj(1, wbits=31)
    pieces = [
        packer.compress(header(3, 2**31)) + packer.flush(zlib.Z_FULL_FLUSH),
        (packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)) * 4096,
    ]
    mnist("gzip-bomb", lambda d: b"".join(pieces), ".gz")
