import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from feddiv.core.errors import UserError
from feddiv.data.published.pickles import read_pickle


class Hostile:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (self.command,)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data.pkl"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_and_plain_containers_are_read(file: Path, protocol: int) -> None:
    content = {
        "data": np.arange(6, dtype=np.uint8).reshape(2, 3),
        "turned": np.arange(6.0).reshape(2, 3).T,
        "swapped": np.arange(24).reshape(2, 3, 4).swapaxes(0, 1),
        "number": np.float32(1.5),
        "plain": [1, 2.5, "text", b"bytes", None, True, (1, 2), {3}, frozenset({4})],
    }
    file.write_bytes(pickle.dumps(content, protocol))
    back = read_pickle(file)
    assert back["data"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert back["turned"].tolist() == content["turned"].tolist()  # type: ignore[attr-defined]
    assert back["swapped"].tolist() == content["swapped"].tolist()  # type: ignore[attr-defined]
    assert back["number"] == 1.5
    assert back["plain"] == content["plain"]


def test_strings_of_python_2_are_read_by_encoding(file: Path) -> None:
    file.write_bytes(b"(dp0\nS'caf\\xe9'\np1\nI1\ns.")
    assert read_pickle(file, encoding="latin1") == {"caf\xe9": 1}
    assert read_pickle(file, encoding="bytes") == {b"caf\xe9": 1}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_is_refused_and_not_executed(
    file: Path, tmp_path: Path, protocol: int
) -> None:
    trace = tmp_path / "executed"
    payload = pickle.dumps([np.zeros(2), Hostile(f"touch {trace}")], protocol)
    file.write_bytes(payload)
    with pytest.raises(UserError, match=r"the pickle asks for (posix|nt)\.system") as caught:
        read_pickle(file)
    assert str(file) in str(caught.value)
    assert not trace.exists()
    pickle.loads(payload)  # the same bytes do run in the ordinary reader
    assert trace.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("numpy", "load"),
        ("numpy", "ndarray.tofile"),
        ("numpy.core.multiarray", "fromfile"),
        ("_codecs", "decode"),
    ],
)
def test_other_globals_are_refused_by_name(file: Path, module: str, name: str) -> None:
    stacked = f"\x8c{chr(len(module))}{module}\x8c{chr(len(name))}{name}\x93."
    file.write_bytes(b"\x80\x04" + stacked.encode("latin1"))
    with pytest.raises(UserError, match=f"asks for {module}.{name}"):
        read_pickle(file)


def test_bytes_use_no_other_codec(file: Path) -> None:
    file.write_bytes(b"c_codecs\nencode\n(Vabc\nVrot13\ntR.")
    with pytest.raises(UserError, match="codec 'rot13'"):
        read_pickle(file)


@pytest.mark.parametrize("content", [b"", b"\x80", b"no pickle", b"\x80\x04K\x01", b"\xff" * 20])
def test_damaged_files_are_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(UserError, match="not a readable pickle"):
        read_pickle(file)


def test_missing_files_and_folders_are_named(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"data\.pkl: there is no such file"):
        read_pickle(file)
    with pytest.raises(UserError, match="cannot be read"):
        read_pickle(tmp_path)


def test_the_checksum_comes_first(file: Path) -> None:
    file.write_bytes(pickle.dumps([1]))
    with pytest.raises(UserError, match=r"wrong checksum .* expected 0"):
        read_pickle(file, md5="0" * 32)
