"""Pickles made to crash, to hang or to fill the memory: each is one line, in this process."""

import os
import pickle
import struct
import subprocess
import sys
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from feddiv.core.errors import UserError
from feddiv.core.weights import read_torch_weights
from feddiv.data.published.pickle_values import Damaged
from feddiv.data.published.pickles import read_pickle
from feddiv.data.published.plain_pickle import NotPlain, read_plain

ARRAY = {"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "labels": [1, 2], "name": "batch"}

# Run in a process of its own: what this looks for ends the process.
FUZZ = """
import random, sys
from feddiv.data.published.pickle_values import Damaged
from feddiv.data.published.plain_pickle import NotPlain, read_plain
import pickle, pickletools
import numpy as np

seed, count = int(sys.argv[1]), int(sys.argv[2])
content = {"data": np.arange(60, dtype=np.uint8).reshape(4, 15), "labels": [1, 2, 300],
           "f": np.linspace(0, 1, 7), "n": np.float32(2), "s": {1, 2}, "t": (b"x", 2.5, None)}
whole = [pickle.dumps(content, protocol) for protocol in range(6)]
codes = [ord(op.code) for op in pickletools.opcodes]
rng = random.Random(seed)
refused = 0
for _ in range(count):
    data = bytearray(rng.choice(whole))
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data))
        kind = rng.randrange(5)
        if kind == 0:
            data[place] = rng.randrange(256)
        elif kind == 1:
            data[place] = rng.choice(codes)
        elif kind == 2:
            data.insert(place, rng.choice(codes))
        elif kind == 3:
            del data[place:place + rng.randint(1, 8)]
        else:  # some of another pickle
            other = rng.choice(whole)
            start = rng.randrange(len(other))
            data[place:place] = other[start:start + rng.randint(1, 30)]
    try:
        read_plain(bytes(data), rng.choice(["ASCII", "latin1", "bytes"]))
    except (Damaged, NotPlain):
        refused += 1
print(refused)
"""


def fuzzed(seed: int, count: int) -> int:
    done = subprocess.run(
        [sys.executable, "-c", FUZZ, str(seed), str(count)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    return int(done.stdout)


def test_mutated_pickles_are_read_or_refused() -> None:
    assert fuzzed(0, 4000) > 2000


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1, 5))
def test_many_mutated_pickles_are_read_or_refused(seed: int) -> None:
    assert fuzzed(seed, 250_000) > 100_000


def array_state(kind: bytes, state: bytes) -> bytes:
    """A pickle that gives a new array a state of these bytes."""
    made = b"\x80\x02cnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R"
    typed = b"cnumpy\ndtype\nX" + struct.pack("<I", len(kind)) + kind + b"K\x00K\x01\x87R"
    typed += b"(K\x03X\x01\x00\x00\x00|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    return made + b"(K\x01" + state.replace(b"TYPE", typed) + b"tb."


def test_an_array_of_pointers_is_no_array_of_numbers(tmp_path: Path) -> None:
    """numpy takes these bytes for addresses, and a set of them looks there."""
    pointers = array_state(b"O8", b"K\x04\x85TYPE\x89C\x20" + b"\x41" * 32)
    in_a_set = b"cbuiltins\nset\n" + pointers[:-1] + b"\x85R."
    for content in (pointers, in_a_set):
        (tmp_path / "a.pkl").write_bytes(content)
        with pytest.raises(UserError, match=r"an array of type 'O8', not of numbers"):
            read_pickle(tmp_path / "a.pkl")
    numbers = array_state(b"u1", b"K\x04\x85TYPE\x89C\x04" + b"\x41" * 4)
    assert read_plain(numbers).tolist() == [65] * 4


def opcodes(*parts: bytes) -> bytes:
    return b"\x80\x05" + b"".join(parts) + b"."


HUGE = b"\x8a\x06" + (1 << 40).to_bytes(6, "little")  # a number of 6 bytes
SAME = (1 << 61) - 1  # multiples of it have the same hash
HOSTILE = {
    "more bytes than there are": array_state(b"u1", b"K\x09\x85TYPE\x89C\x04aaaa"),
    "a shape of a million million": array_state(b"u1", HUGE + b"\x85TYPE\x89C\x04aaaa"),
    "zero times a lot": array_state(b"u1", b"K\x00" + HUGE + b"\x86TYPE\x89C\x00"),
    "texts": array_state(b"U4", b"K\x01\x85TYPE\x89C\x10" + b"\xff" * 16),
    "fields": array_state(b"V8", b"K\x01\x85TYPE\x89C\x08aaaaaaaa"),
    "a state twice": array_state(b"u1", b"K\x01\x85TYPE\x89C\x01a")[:-1] + b"}b.",
    "a state for a list": opcodes(b"]}b"),
    "a state for a name": opcodes(b"cnumpy\nndarray\n}b"),
    "attributes of a name": opcodes(b"cnumpy\ndtype\nN}X\x01\x00\x00\x00aK\x01s\x86b"),
    "zeros by the terabyte": opcodes(b"cbuiltins\nbytearray\n", HUGE, b"\x85R"),
    "a frame of terabytes": opcodes(
        b"\x95" + (1 << 60).to_bytes(8, "little"), b"B\xff\xff\xff\xff"
    ),
    "an array called into being over addresses": opcodes(
        b"cbuiltins\nset\ncnumpy\nndarray\n(K\x04\x85X\x02\x00\x00\x00O8C\x20",
        b"\x41" * 32 + b"tR\x85R",
    ),
    "an int of megabytes": opcodes(b"I" + b"9" * 100_000 + b"\n"),
    "half an array in a list": opcodes(
        b"]cnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87Ra"
    ),
    "a tuple as a key": opcodes(b"}", b")" + b"\x85" * 300_000, b"K\x01s"),
    "an object": opcodes(b"cnumpy\nndarray\n)\x81"),
    "an outside buffer": opcodes(b"\x97"),
    "a persistent id": opcodes(b"K\x01Q"),
    "many colliding keys": opcodes(
        b"}(",
        *(b"\x8a\x10" + (n * SAME).to_bytes(16, "little") + b"N" for n in range(20_000)),
        b"u",
    ),
    "copies of one text": opcodes(
        b"X\x10\x27\x00\x00" + b"a" * 10_000 + b"\x94",
        *[b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R0"] * 500,
    ),
    "too many steps": opcodes(b"]0" * 1_000_001),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_refused_at_once(name: str) -> None:
    start = time.process_time()
    with pytest.raises((Damaged, NotPlain)):
        read_plain(HOSTILE[name])
    assert time.process_time() - start < 20


def test_a_high_place_in_the_memo_costs_nothing() -> None:
    """Python's own reader makes room for all the places below it: 32 gigabytes."""
    assert read_plain(opcodes(b"K\x07r\xff\xff\xff\xff0j\xff\xff\xff\xff")) == 7


def test_depth_is_no_danger() -> None:
    deep = read_plain(opcodes(b"]" * 100_000, b"a" * 99_999))
    for _ in range(99_999):
        (deep,) = deep
    assert deep == []


def test_names_that_are_no_texts() -> None:
    """To print such a list takes longer than anyone lives."""
    laughs = b"]\x940" + b"".join(
        b"]h" + bytes([n]) + b"ah" + bytes([n]) + b"a\x940" for n in range(60)
    )  # fmt: skip
    with pytest.raises(Damaged, match="a name that is no text"):
        read_plain(opcodes(laughs, b"h\x3ch\x3c\x93"))
    with pytest.raises(Damaged, match="a list where a word should be"):
        read_plain(opcodes(laughs, b"cnumpy\ndtype\nh\x3c\x85R"))


@settings(max_examples=300, derandomize=True)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with suppress(Damaged, NotPlain):
        read_plain(content)


def test_pipes_devices_and_large_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(UserError, match="is a pipe or a device and no file"):
            read_pickle(path)
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(ARRAY))
    monkeypatch.setattr("feddiv.data.published.pickles.LARGEST", 10)
    with pytest.raises(UserError, match=r"has more than 10 bytes"):
        read_pickle(tmp_path / "a.pkl")


def test_arrays_are_shared_as_they_were() -> None:
    """The memo holds an array before its state comes."""
    one = np.arange(3)
    first, second = read_plain(pickle.dumps([one, one], 2))
    assert first is second
    assert first.tolist() == [0, 1, 2]


# Weights that torch saved


def test_mutated_weights_are_read_or_refused(tmp_path: Path) -> None:
    fuzz = """
import io, random, sys, torch
from feddiv.core.weights import read_torch_weights
rng = random.Random(0)
whole = []
for new in (True, False):
    file = io.BytesIO()
    torch.save({"w": torch.arange(6.0).view(2, 3), "n": torch.tensor(3)}, file,
               _use_new_zipfile_serialization=new)
    whole.append(file.getvalue())
for _ in range(int(sys.argv[1])):
    data = bytearray(rng.choice(whole))
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    try:
        read_torch_weights(bytes(data))
    except ValueError:
        pass
"""
    done = subprocess.run(
        [sys.executable, "-c", fuzz, "300"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])


def test_weights_that_unpack_to_more_than_they_are(tmp_path: Path) -> None:
    torch.save({"w": torch.zeros(1000)}, tmp_path / "a.pth")
    with (
        zipfile.ZipFile(tmp_path / "a.pth") as old,
        zipfile.ZipFile(tmp_path / "b.pth", "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for member in old.infolist():
            new.writestr(member.filename, old.read(member))
    assert list(read_torch_weights((tmp_path / "a.pth").read_bytes())) == ["w"]
    with pytest.raises(ValueError, match=r"a compressed zip, which torch.save does not write"):
        read_torch_weights((tmp_path / "b.pth").read_bytes())
