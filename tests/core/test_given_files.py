"""Files that somebody else names are read whole, for no more memory than they need."""

import tracemalloc
from pathlib import Path

import pytest

from feddiv.core.given_files import read_given

UNSIZED = Path("/proc/self/maps")  # a regular file whose size is said to be 0


def test_memory_is_asked_for_by_the_size_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b"x" * 3000)
    tracemalloc.start()
    try:
        assert read_given(file, 1 << 28) == b"x" * 3000
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 1 << 20


@pytest.mark.parametrize("size", [0, 1, 4096])
def test_a_file_of_just_so_many_bytes_is_read_and_a_larger_one_is_not(
    tmp_path: Path, size: int
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * size)
    assert read_given(file, size) == b"x" * size
    if size:
        with pytest.raises(OSError, match="has more than"):
            read_given(file, size - 1)


@pytest.mark.skipif(not UNSIZED.exists(), reason="Linux has such files")
def test_a_file_that_says_it_is_empty_is_read_to_its_end_and_no_further_than_allowed() -> None:
    assert UNSIZED.stat().st_size == 0
    whole = read_given(UNSIZED)
    assert len(whole.splitlines()) > 10
    assert whole.endswith(b"\n")
    with pytest.raises(OSError, match="has more than 100 bytes"):
        read_given(UNSIZED, 100)
