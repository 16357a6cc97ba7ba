"""Files that were made to hurt: each is refused in one line, soon, and nothing is written."""

import io
import json
import struct
import zipfile
from urllib.parse import quote

import pytest

from feddiv.audits.exchange.site_files import export, import_file, site_audits
from feddiv.audits.label_audit import COLUMNS
from feddiv.core.errors import UserError
from feddiv.data.corrections import read

from .sites import NAMES, write_site


@pytest.fixture
def site(tmp_path):
    return write_site(tmp_path)


def refused(site, tmp_path, content, said):
    back = tmp_path / "back"
    back.write_bytes(content)
    before = sorted(site.iterdir())
    with pytest.raises(UserError, match=said) as problem:
        import_file(site, back, "ann", confirm=True)
    assert "\n" not in str(problem.value)
    assert len(str(problem.value)) < 400 + len(str(tmp_path))
    assert sorted(site.iterdir()) == before


def packed(members, method=zipfile.ZIP_DEFLATED):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return content.getvalue()


def annotated(who, sample=NAMES[0], choice="dog"):
    result = {"from_name": "label", "type": "choices", "value": {"choices": [choice]}}
    annotation = {"completed_by": who, "result": [result]}
    return json.dumps([{"data": {"sample": sample}, "annotations": [annotation]}]).encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (annotated({"email": "x" * 200_000}), "has 200,013 characters, at most 4,096"),
        (annotated({"email": "\udc80"}), "has bytes in it that are no text"),
        (annotated({"email": "a\0b"}), "has a zero byte in it"),
        (annotated([[1]]), "an annotator is a list, neither a name nor a number"),
        (annotated(1, sample="x" * 200_000), "sample 'xxx.*has 200,000 characters"),
        (annotated(1, choice="x" * 200_000), "label 'xxx.*has 200,000 characters"),
    ],
)
def test_annotators_without_a_name_that_can_be_kept(site, tmp_path, content, said):
    refused(site, tmp_path, content, said)


def test_lists_that_fill_the_memory_together(site, tmp_path):
    spaces = " " * (30 << 20)
    content = packed({f"{number}.txt": spaces for number in range(3)})
    refused(site, tmp_path, content, r"lists \(.txt\) have 94,371,840 bytes, at most 67,108,864")


def test_a_zip_with_too_many_files_is_refused_before_it_is_opened(site, tmp_path, monkeypatch):
    """An entry of its list is 47 bytes, what zipfile makes of it half a kilobyte."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 0, 20, *[0] * 8, 1, *[0] * 6) + b"a"
    entries = entry * 1_000_001
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65535, 65535, len(entries), 0, 0)
    monkeypatch.setattr(zipfile, "ZipFile", None)
    refused(site, tmp_path, b"PK\x03\x04" + entries + end, "has more than 1,000,000 files")


def listed(line):
    return packed({"synsets.txt": "cat\ndog\n", "default.txt": line})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (listed("%" + "25" * 3000 + ".png 0"), "'%25.*has 6,007 characters, at most 4,196"),
        (listed("%" + "25" * 2050 + ".png 0"), "file '%25.*has 4,101 characters, at most 4,096"),
        (listed("a/" * 1000 + "x.png 0"), "lies in 1,000 folders, at most 64"),
        (listed("x.png \u00b2"), "is no image with the number of its label"),
        (packed({"5/" + "a/" * 3000 + "x.png": ""}), "has 6,007 characters, at most 4,096"),
        (packed({"5/" + "a/" * 100 + "x.png": ""}), "lies in 101 folders, at most 64"),
        (packed({"synsets.txt": b"\xff", "a.txt": ""}), "synsets.txt: is no text in UTF-8"),
        (("filepath,label\n" + "a/" * 3000 + ",cat\n").encode(), "has 6,000 characters"),
        (("filepath,label\n" + "a\\" * 100 + "b,cat\n").encode(), "lies in 100 folders"),
    ],
)
def test_names_that_take_long_to_look_for(site, tmp_path, content, said):
    refused(site, tmp_path, content, said)


def test_a_name_is_decoded_a_few_times_only(site, tmp_path):
    name = NAMES[0]
    for _ in range(20):
        name = quote(name, safe="")
    refused(site, tmp_path, packed({f"dog/{name}.png": ""}), "the data have no such sample")


def test_many_labels_before_a_name_are_still_taken_away(site, tmp_path):
    back = tmp_path / "back"
    back.write_bytes(packed({"dog/" + "cat_dog_sea%2Flion_" * 8 + "cat%2Fone.png.png": ""}))
    import_file(site, back, "ann", confirm=False)
    assert [each.sample for each in read(site / "corrections.csv").decisions] == [NAMES[0]]


def test_a_damaged_list_is_said_to_be(site, tmp_path):
    content = bytearray(packed({"synsets.txt": "cat\ndog\n" * 50}))
    start = 30 + len("synsets.txt")
    content[start : start + 8] = b"\xff" * 8
    refused(site, tmp_path, bytes(content), "synsets.txt is damaged")


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_methods_that_unpack_more_than_is_asked_for(site, tmp_path, method):
    content = packed({"synsets.txt": "cat\n"}, method)
    refused(site, tmp_path, content, f"is packed by method {method}; use deflate")


@pytest.mark.parametrize("there", [True, False])
def test_corrections_elsewhere_are_left_alone(site, tmp_path, there):
    elsewhere = tmp_path / "elsewhere.csv"
    if there:
        elsewhere.write_bytes(b"")
    (site / "corrections.csv").symlink_to(elsewhere)
    refused(site, tmp_path, b"sample,label\ncat/one.png,dog\n", "is a link, and no file elsewhere")
    assert elsewhere.exists() == there
    assert not there or elsewhere.read_bytes() == b""


def exported(site, tool, prefix=None):
    [(folder, audit)] = site_audits(site)
    export(audit, folder, tool, 1, prefix)


@pytest.mark.parametrize("tool", ["csv", "label-studio", "cvat"])
@pytest.mark.parametrize(
    ("row", "said"),
    [
        (b"\xff.png,cat,dog", "line 2: sample .* has bytes in it that are no text"),
        (b"a\0b.png,cat,dog", "line 2: sample .* has a zero byte in it"),
        (b"a.png,\xff,dog", "line 2: given_label .* has bytes in it that are no text"),
        (b"a.png,cat,d\0g", "line 2: predicted_label .* has a zero byte in it"),
    ],
)
def test_names_that_are_no_text_are_not_exported(tmp_path, tool, row, said):
    labels = tmp_path / "labels.csv"
    labels.write_bytes(",".join(COLUMNS).encode() + b"\n" + row + b",0.1,True,0.9,review\n")
    with pytest.raises(UserError, match=said) as problem:
        exported(tmp_path, tool)
    assert "\n" not in str(problem.value)
    assert list(tmp_path.iterdir()) == [labels]


def test_classes_that_are_no_text_are_not_exported(site):
    file = site / "audit.json"
    facts = json.loads(file.read_text())
    facts["classes"].append("\udc80")
    file.write_text(json.dumps(facts))
    with pytest.raises(UserError, match=r"audit.json: is damaged \(class .* are no text"):
        site_audits(site)


@pytest.mark.parametrize("tool", ["csv", "label-studio"])
def test_a_prefix_and_names_of_data_are_looked_at_before_anything_is_written(site, tool):
    before = sorted(site.iterdir())
    with pytest.raises(UserError, match=r"--prefix .* has bytes in it that are no text"):
        exported(site, tool, "\udc80")
    assert sorted(site.iterdir()) == before
