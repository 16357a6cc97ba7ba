"""corrections.csv: nothing decided is lost, and nothing that it does not say is read from it."""

import multiprocessing
import os
from pathlib import Path

import pytest

from feddiv.core.errors import UserError
from feddiv.data.corrections import append, merge_files, now, read
from feddiv.data.corrections.decision import TIME
from feddiv.data.corrections.file import HEADER

from .rows import PETS, decided


@pytest.fixture
def file(tmp_path):
    return tmp_path / "corrections.csv"


def test_what_was_appended_is_read_in_the_datas_own_names(file):
    first = [decided("a.png", "correct", "-eel"), decided("=1+2.png", "confirm", second=1)]
    assert append(file, first) is None
    assert append(file, [decided("b.png", "cannot_tell", second=2)]) is None
    assert file.read_text() == (
        "sample,given_label,decision,label,reviewer,time\n"
        "a.png,cat,correct,'-eel,ann,2026-01-02T03:00:00.000000Z\n"
        "'=1+2.png,dog,confirm,dog,ann,2026-01-02T03:00:01.000000Z\n"
        "b.png,dog,cannot_tell,,ann,2026-01-02T03:00:02.000000Z\n"
    )
    assert read(file, PETS).decisions == (*first, decided("b.png", "cannot_tell", second=2))
    assert TIME.fullmatch(now())


def test_a_file_cut_anywhere_keeps_every_row_before_and_heals(file):
    rows = [decided("a.png", "correct", "dog"), decided("b.png", "skip", second=1)]
    append(file, rows)
    whole = file.read_bytes()
    second = whole.rindex(b"b.png")
    for end in range(len(whole)):
        file.write_bytes(whole[:end])
        found = read(file, PETS)
        kept = 0 if end < second - 1 else 1 if end < len(whole) - 1 else 2
        assert len(found.decisions) == kept
        note = append(file, [decided("c.png", "confirm", second=2)])
        assert read(file, PETS).decisions == (*rows[:kept], decided("c.png", "confirm", second=2))
        assert (note is None) == (not found.notes)
        assert note is None or "by half" in note
    assert note is None, "only the line's end was missing"


def test_a_full_disk_takes_all_rows_or_none(file):
    """Rows of one action: the page is told that it is not saved, so none of them may be there."""
    resource = pytest.importorskip("resource")  # not on Windows
    rows = [decided("a.png", "correct", "dog"), decided("b.png", "skip")]
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    for before in ([], [decided("c.png", "skip")]):
        append(file, before)
        old = file.read_bytes()
        append(file, rows)
        whole = file.read_bytes()
        for end in range(len(old), len(whole), 7):
            file.write_bytes(old)
            resource.setrlimit(resource.RLIMIT_FSIZE, (end, hard))
            try:
                with pytest.raises(UserError, match="the decision is not saved"):
                    append(file, rows)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            assert file.read_bytes() == old
        append(file, rows)
        assert file.read_bytes() == whole
        file.unlink()


def test_a_name_of_several_lines_and_quotes_can_be_cut_too(file):
    from feddiv.data.corrections import Subject

    name = 'a\n"b",\nc'
    subject = Subject.of([name], ["cat"], ["cat", "dog"])
    row = decided("a.png", "skip")
    row = type(row)(name, "cat", row.decision, "", "ann", row.time)
    append(file, [row])
    whole = file.read_bytes()
    assert read(file, subject).decisions == (row,)
    for end in range(len(HEADER), len(whole) - 1):
        file.write_bytes(whole[:end])
        assert read(file, subject).decisions == ()
        append(file, [row])
        assert read(file, subject).decisions == (row,)


def test_a_spreadsheets_marks_and_line_ends_are_fine(file):
    append(file, [decided("a.png", "correct", "dog")])
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    append(file, [decided("b.png", "confirm", second=1)])
    assert [each.sample for each in read(file, PETS).decisions] == ["a.png", "b.png"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("a.png,cat,perhaps,,ann,T", "line 2: decision 'perhaps': use one of confirm, correct"),
        ("a.png,cat,correct,cow,ann,T", "line 2: label 'cow': is no class of the data; these"),
        ("z.png,cat,confirm,cat,ann,T", "sample 'z.png': the data have no such sample"),
        ("a.png,dog,confirm,dog,ann,T", "has label 'cat' in the data and 'dog' here: a correc"),
        ("a.png,cat,confirm,dog,ann,T", "confirm keeps the given label 'cat'"),
        ("a.png,cat,correct,cat,ann,T", "correct needs another label"),
        ("a.png,cat,skip,cat,ann,T", "skip has none"),
        ("a.png,cat,confirm,cat,,T", "reviewer is empty"),
        ("a.png,cat,confirm,cat,ann,today", "time 'today'"),
        ("a.png,cat,confirm,cat,ann,2026-02-30T00:00:00Z", "time '2026-02-30T00:00:00Z'"),
        ("a.png,cat,confirm", "line 2: has 3 columns, not 6"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(file, row, said):
    file.write_bytes(HEADER + row.replace(",T", ",2026-01-02T03:04:05Z").encode() + b"\n")
    with pytest.raises(UserError) as problem:
        read(file, PETS)
    assert said in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"sample,label\na,b\n", "is no corrections file"),
        (b"PK\x03\x04", "is no corrections file"),
        (HEADER + b"\xff\xfe,cat,skip,,ann,2026-01-02T03:04:05Z\n", "is no text in UTF-8"),
        (HEADER + b'"' + b"a,b\n" * 50_000, "a quotation mark without its end"),
    ],
)
def test_other_files_are_refused_and_left_alone(file, content, said):
    file.write_bytes(content)
    with pytest.raises(UserError, match=said):
        read(file)
    if "UTF-8" not in said:
        with pytest.raises(UserError, match=said):
            append(file, [decided("a.png", "skip")])
    assert file.read_bytes() == content


def test_a_later_file_may_give_what_an_earlier_one_corrected(file, tmp_path):
    from feddiv.data.corrections.file import read_in_turn

    later = tmp_path / "later.csv"
    append(file, [decided("a.png", "correct", "dog")])
    row = decided("a.png", "correct", "dog")
    append(later, [type(row)("a.png", "dog", row.decision, "-eel", "ann", row.time)])
    assert [each.label for each in read_in_turn([file, later], PETS).decisions] == ["dog", "-eel"]
    with pytest.raises(UserError, match="for other data"):
        read(later, PETS)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o500)
    with pytest.raises(UserError, match=r"corrections.csv: cannot be written .*is not saved"):
        append(closed / "corrections.csv", [decided("a.png", "skip")])
    closed.chmod(0o700)


def test_a_folder_that_is_missing_or_in_its_place_is_said(tmp_path):
    with pytest.raises(UserError, match="cannot be written"):
        append(tmp_path / "none" / "corrections.csv", [decided("a.png", "skip")])
    with pytest.raises(UserError, match="is a folder"):
        append(tmp_path, [decided("a.png", "skip")])
    with pytest.raises(UserError, match="cannot be read"):
        read(tmp_path / "none.csv")
    if Path("/proc/self").is_dir():  # not even root writes there
        with pytest.raises(UserError, match=r"cannot be written .*is not saved"):
            append(Path("/proc/corrections.csv"), [decided("a.png", "skip")])


def _many(file, reviewer):
    for second in range(50):
        append(file, [decided("a.png", "skip", reviewer=reviewer, second=second)])


@pytest.mark.slow
def test_processes_that_append_at_once_lose_nothing(file):
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_many, args=(file, name)) for name in ("ann", "bob")]
    for each in both:
        each.start()
    for each in both:
        each.join()
    rows = [(each.reviewer, each.time) for each in read(file).decisions]
    assert len(rows) == len(set(rows)) == 100


@pytest.mark.parametrize(
    ("reviewer", "said"),
    [
        ("x" * 200_000, "has 200,000 characters, at most 4,096 are allowed"),
        ("\t" * 4000, "has 8,000 characters"),  # in a cell: each would begin a formula
        ("a\0b", "has a zero byte in it"),
        ("\udc80", "has bytes in it that are no text"),
    ],
)
def test_what_could_not_be_read_again_is_not_written(file, reviewer, said):
    with pytest.raises(UserError, match=said) as problem:
        append(file, [decided("a.png", "skip"), decided("b.png", "skip", reviewer=reviewer)])
    assert "\n" not in str(problem.value)
    assert len(str(problem.value)) < 300 + len(str(file))
    assert list(file.parent.iterdir()) == []


def test_the_longest_names_are_read_again(file):
    row = decided("a.png", "skip", reviewer='"' * 4095 + "\U0001f600")
    append(file, [row])
    assert read(file, PETS).decisions == (row,)
    file.write_bytes(file.read_bytes()[:-1])  # the line's end: the row is whole
    assert read(file, PETS).decisions == (row,)


def test_a_file_does_not_grow_beyond_what_is_read(file, monkeypatch):
    monkeypatch.setattr("feddiv.data.corrections.file.MOST", 150)
    with pytest.raises(UserError, match="would have more than 150 bytes"):
        append(file, [decided("a.png", "skip")] * 3)
    assert not file.exists()
    append(file, [decided("a.png", "skip")])
    before = file.read_bytes()
    with pytest.raises(UserError, match="would have more than 150 bytes"):
        append(file, [decided("a.png", "skip")])
    assert file.read_bytes() == before


@pytest.mark.parametrize("there", [True, False])
def test_links_are_not_written_through(tmp_path, there):
    (tmp_path / "site").mkdir()
    file, elsewhere = tmp_path / "site" / "corrections.csv", tmp_path / "elsewhere.csv"
    mine = tmp_path / "mine.csv"
    append(mine, [decided("a.png", "skip")])
    if there:
        append(elsewhere, [decided("b.png", "skip")])
    file.symlink_to(elsewhere)
    before = elsewhere.read_bytes() if there else None
    for write in (
        lambda: append(file, [decided("a.png", "skip")]),
        lambda: merge_files([mine, mine], file),
    ):
        with pytest.raises(UserError, match="is a link, and no file elsewhere is written to"):
            write()
        assert (elsewhere.read_bytes() if elsewhere.exists() else None) == before
    assert file.is_symlink()


def test_a_file_with_a_second_name_is_not_added_to(tmp_path, file):
    elsewhere = tmp_path / "elsewhere.csv"
    append(elsewhere, [decided("b.png", "skip")])
    before = elsewhere.read_bytes()
    os.link(elsewhere, file)
    with pytest.raises(UserError, match="has a second name somewhere"):
        append(file, [decided("a.png", "skip")])
    assert elsewhere.read_bytes() == before
