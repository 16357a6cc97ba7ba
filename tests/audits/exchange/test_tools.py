"""Doubtful labels go to annotation tools in their formats, and decisions come back."""

import csv
import io
import json
import unicodedata
import xml.etree.ElementTree as ElementTree
import zipfile
from base64 import b64decode
from urllib.parse import quote, unquote

import numpy as np
import pytest
from PIL import Image

from feddiv.audits.exchange.site_files import export, import_file, site_audits
from feddiv.audits.folder import write_audit
from feddiv.audits.label_audit import LabelAudit
from feddiv.core.errors import UserError
from feddiv.data.corrections import Review, append, read
from feddiv.methods.contract import Assessment

from .sites import CLASSES, NAMES, write_site


@pytest.fixture
def site(tmp_path):
    return write_site(tmp_path)


def exported(site, tool, worst=None, prefix=None):
    [(folder, audit)] = site_audits(site)
    assert folder == site
    return export(audit, folder, tool, worst, prefix)


def decided(site):
    """(sample, decision, label, reviewer) of every row."""
    rows = read(site / "corrections.csv").decisions
    return [(each.sample, each.decision.value, each.label, each.reviewer) for each in rows]


# Label Studio: https://labelstud.io/guide/task_format, https://labelstud.io/guide/predictions


def test_label_studio_gets_tasks_with_predictions_and_scores(site):
    count, (file, config) = exported(site, "label-studio")
    tasks = json.loads(file.read_text())
    assert count == len(tasks) == 2, "as many as look wrong"
    for task in tasks:
        assert set(task) == {"data", "predictions"}
        [prediction] = task["predictions"]
        assert set(prediction) == {"model_version", "score", "result"}
        assert 0 <= prediction["score"] <= 1
        [result] = prediction["result"]
        assert set(result) == {"id", "from_name", "to_name", "type", "value"}
        assert result["type"] == "choices"
    assert tasks[0]["data"]["sample"] == NAMES[0]
    assert tasks[0]["data"]["label_quality"] == 0.05
    assert tasks[0]["predictions"][0]["result"][0]["value"] == {"choices": ["sea/lion"]}
    kind, content = tasks[1]["data"]["image"].split(";base64,")
    assert kind == "data:image/png"
    assert np.asarray(Image.open(io.BytesIO(b64decode(content))))[0, 0].tolist() == [50] * 3

    view = ElementTree.fromstring(config.read_text())
    choices = view.find("Choices")
    assert view.find("Image").attrib == {"name": result["to_name"], "value": "$image"}
    assert (choices.get("name"), choices.get("toName")) == ("label", "sample")
    assert [each.get("value") for each in choices] == [*CLASSES, "can't tell"]


def test_an_image_whose_name_would_be_a_formula_is_found(tmp_path):
    photo = tmp_path / "photos" / "=1" / "a.png"
    photo.parent.mkdir(parents=True)
    Image.fromarray(np.zeros((4, 4, 3), np.uint8)).save(photo)
    opinion = Assessment(np.array([1]), np.array([0.1]))
    audit = LabelAudit(
        "north", ("=1", "b"), np.array([0]), opinion, lambda _: "=1/a.png", data=photo.parents[1]
    )
    write_audit(tmp_path / "site", audit, page=False)
    _, [file, _] = exported(tmp_path / "site", "label-studio", 1)
    [task] = json.loads(file.read_text())
    assert task["data"]["image"].startswith("data:image/png;base64,")


def test_label_studio_can_be_told_where_files_are(site):
    _, (file, _) = exported(site, "label-studio", 4, "/data/local-files/?d=photos/")
    tasks = json.loads(file.read_text())
    assert tasks[3]["data"]["image"] == "/data/local-files/?d=photos/dog/<b>.png"


def annotated(tasks, choices, who=7):
    """Tasks as Label Studio exports them once somebody has gone through them."""
    for number, (task, choice) in enumerate(zip(tasks, choices, strict=True)):
        result = {
            "id": "x1",
            "from_name": "label",
            "to_name": "sample",
            "type": "choices",
            "origin": "manual",
            "value": {"choices": [choice]},
        }
        annotation = {
            "id": 1000 + number,
            "result": [] if choice is None else [result],
            "was_cancelled": choice is None,
            "ground_truth": False,
            "created_at": f"2026-02-03T04:05:0{number}.123456Z",
            "updated_at": f"2026-02-03T04:06:0{number}.123456Z",
            "lead_time": 4.2,
            "task": number,
            "completed_by": who,
        }
        yield {
            **task,
            "id": number,
            "annotations": [annotation],
            "created_at": "2026-02-03T00:00:00Z",
            "updated_at": "2026-02-03T00:00:00Z",
            "project": 83,
        }


def test_what_label_studio_exports_comes_back_once(site, tmp_path):
    _, (file, _) = exported(site, "label-studio", 4)
    tasks = json.loads(file.read_text())
    back = tmp_path / "project-1.json"
    choices = ["sea/lion", "dog", "can't tell", None]
    back.write_text(json.dumps(list(annotated(tasks, choices))))
    found = import_file(site, back, None, confirm=False)
    assert (found.corrected, found.confirmed, found.others, found.known) == (1, 1, 2, 0)
    who = "label-studio 7"
    order = [task["data"]["sample"] for task in tasks]
    assert order[:2] == list(NAMES[:2])
    assert decided(site) == [
        (order[0], "correct", "sea/lion", who),
        (order[1], "confirm", "dog", who),
        (order[2], "cannot_tell", "", who),
        (order[3], "skip", "", who),
    ]
    assert read(site / "corrections.csv").decisions[0].time == "2026-02-03T04:06:00.123456Z"
    again = import_file(site, back, None, confirm=False)
    assert (again.corrected, again.confirmed, again.others, again.known) == (0, 0, 0, 4)
    assert len(decided(site)) == 4

    other = {"id": 9, "email": "bob@example.org"}
    back.write_text(json.dumps(list(annotated(tasks[:1], ["dog"], other))))
    import_file(site, back, None, confirm=False)
    [conflict] = Review.of(read(site / "corrections.csv").decisions).conflicts
    assert conflict.decisions.keys() == {who, "label-studio bob@example.org"}


def test_the_short_export_of_label_studio_is_read_too(site, tmp_path):
    back = tmp_path / "min.json"
    row = {
        "sample": NAMES[0],
        "given_label": "cat",
        "id": 1,
        "label": "dog",
        "annotator": 2,
        "annotation_id": 3,
        "created_at": "2026-02-03T04:05:06Z",
        "updated_at": "2026-02-03T04:05:06Z",
        "lead_time": 1.0,
    }
    back.write_text(json.dumps([row]))
    import_file(site, back, None, confirm=False)
    assert decided(site) == [(NAMES[0], "correct", "dog", "label-studio 2")]


# CVAT: https://docs.cvat.ai/docs/manual/advanced/formats/format-imagenet/


def test_cvat_gets_a_folder_of_images_for_each_label(site):
    count, [file] = exported(site, "cvat", 4)
    assert count == 4
    with zipfile.ZipFile(file) as packed:
        assert packed.testzip() is None
        names = packed.namelist()
        pixels = np.asarray(Image.open(io.BytesIO(packed.read(names[1]))))
    assert names[:2] == ["cat/cat_cat%2Fone.png.png", "dog/dog_dog%2Ftwo photos.png.png"]
    assert pixels[0, 0].tolist() == [50] * 3


def repacked(file, back, moved):
    """The archive as CVAT exports it once labels were changed: images in other folders."""
    with zipfile.ZipFile(file) as packed, zipfile.ZipFile(back, "w") as changed:
        for name in packed.namelist():
            folder, _, image = name.partition("/")
            label = moved.get(image, folder)
            changed.writestr(f"{label}/{label}_{image.removeprefix(folder + '_')}", b"an image")


def test_what_cvat_exports_with_images_comes_back(site, tmp_path):
    _, [file] = exported(site, "cvat", 4)
    back = tmp_path / "task.zip"
    repacked(file, back, {"cat_cat%2Fone.png.png": "sea%2Flion"})
    with pytest.raises(UserError, match="does not say who decided; say it by --reviewer NAME"):
        import_file(site, back, None, confirm=False)
    found = import_file(site, back, "ann", confirm=False)
    assert decided(site) == [(NAMES[0], "correct", "sea/lion", "ann")]
    assert found.confirmed == 0, "nobody says that the others were looked at"
    found = import_file(site, back, "ann", confirm=True)
    assert (found.confirmed, found.known) == (3, 1)


def test_what_cvat_exports_without_images_comes_back(site, tmp_path):
    back = tmp_path / "task.zip"
    with zipfile.ZipFile(back, "w") as packed:
        packed.writestr("synsets.txt", "cat\ndog\nsea/lion\n")
        packed.writestr(
            "default.txt",
            'cat/cat_cat%2Fone.png.png 2\n"dog/dog_dog%2Ftwo photos.png".png 0\n'
            "dog/dog_dog%2F%3Cb%3E.png.png\n",
        )
    import_file(site, back, "ann", confirm=False)
    assert [row[:3] for row in decided(site)] == [
        (NAMES[0], "correct", "sea/lion"),
        (NAMES[1], "correct", "cat"),
    ]


ODD_NAMES = ("Löwe/Größe 1 (α).png", "Löwe/100 %25.png", "mer ours/日本 語.png", "x/a_b.png")
ODD_CLASSES = ("Löwe", "mer ours", "Löwe_jung")


class Unflagged(zipfile.ZipInfo):
    """A name in UTF-8 that nobody says is, as some programs write archives."""

    def _encodeFilenameFlags(self):
        return self.filename.encode(), 0


def by_parts(name, change):
    """The same change to the folder and to the name of a file, its ending left as it is."""
    folder, _, file = name.partition("/")
    stem, ending = file[:-4], file[-4:]
    return f"{change(folder)}/{change(stem)}{ending}"


@pytest.mark.parametrize(
    "change",
    [
        lambda name: name,
        quote,  # as in the address of a request
        lambda name: quote(quote(name)),
        unquote,  # a slash in a sample's name is a folder again
        lambda name: unicodedata.normalize("NFD", name),  # as some file systems write it
    ],
)
@pytest.mark.parametrize("member", [zipfile.ZipInfo, Unflagged])
def test_names_come_back_however_they_were_encoded(tmp_path, change, member):
    site = write_site(tmp_path, ODD_NAMES, ODD_CLASSES)
    _, [file] = exported(site, "cvat", 4)
    with zipfile.ZipFile(file) as packed:
        names = packed.namelist()
    assert names[0] == "Löwe/Löwe_Löwe%2FGröße 1 (α).png.png", "letters are what they are"
    back = tmp_path / "task.zip"
    with zipfile.ZipFile(back, "w") as packed:
        for name in names:
            folder, _, image = name.partition("/")
            moved = by_parts(f"Löwe_jung/Löwe_jung_{image.removeprefix(folder + '_')}", change)
            packed.writestr(member(moved), b"an image")
    import_file(site, back, "ann", confirm=False)
    assert [row[:3] for row in decided(site)] == [
        (name, "correct", "Löwe_jung") for name in ODD_NAMES
    ]


def test_cvat_is_for_images(site):
    (site / "audit.json").unlink()
    with pytest.raises(UserError, match=r"is no image that is here.*use --to csv"):
        exported(site, "cvat")
    assert not (site / "cvat.zip").exists()


# Tables: spreadsheets, and FiftyOne's CSVDataset (a column `filepath`)


def test_a_table_is_filled_in_and_comes_back(site, tmp_path):
    _, [file] = exported(site, "csv", 4, "photos/")
    with file.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    assert rows[0]["filepath"] == "photos/cat/one.png"
    assert {row["label"] for row in rows} == {""}
    for row, label in zip(rows, ["sea/lion", "dog", "", "?"], strict=True):
        row["label"] = label
    back = tmp_path / "filled.csv"
    with back.open("w", newline="", encoding="utf-8-sig") as opened:
        table = csv.DictWriter(opened, list(rows[0]), lineterminator="\r\n")
        table.writeheader()
        table.writerows(rows)
    import_file(site, back, "ann", confirm=False)
    assert [row[:3] for row in decided(site)] == [
        (NAMES[0], "correct", "sea/lion"),
        (NAMES[1], "confirm", "dog"),
        (rows[3]["sample"], "cannot_tell", ""),
    ]


@pytest.mark.parametrize("between", [";", "\t"])
def test_a_table_of_another_countrys_spreadsheet_comes_back(site, tmp_path, between):
    _, [file] = exported(site, "csv", 2)
    with file.open(newline="") as opened:
        head, *rows = csv.reader(opened)
    back = tmp_path / "saved.csv"
    with back.open("w", newline="", encoding="utf-8-sig") as opened:
        table = csv.writer(opened, delimiter=between, lineterminator="\r\n")
        table.writerows([head, *([*row[:-1], "sea/lion"] for row in rows)])
    import_file(site, back, "ann", confirm=False)
    assert decided(site) == [(name, "correct", "sea/lion", "ann") for name in NAMES[:2]]


def test_a_table_of_paths_alone_is_matched_by_their_ends(site, tmp_path):
    back = tmp_path / "fiftyone.csv"
    back.write_text("filepath,label\n/home/ann/photos/dog/two photos.png,cat\n")
    import_file(site, back, "ann", confirm=False)
    assert decided(site) == [(NAMES[1], "correct", "cat", "ann")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a,b\n1,2\n", "is no table of decisions"),
        (b"sample,label\nnowhere.png,cat\n", "the data have no such sample"),
        (b"sample,label\ncat/one.png,cow\n", "label 'cow': is no class of the data"),
        (b"\xff\xfe\x00", "is no text in UTF-8"),
        (b"[1, 2]", "is no export of Label Studio"),
        (b'[{"data": {"image": "x"}}]', "task 0: its data have no sample"),
        (b"{", "is no JSON"),
        (
            b'[{"data": {"sample": "cat/one.png"}, "annotations": [{"result": [{"from_name": '
            b'"label", "value": {"choices": ["cow"]}}], "updated_at": "0001-01-01T00:00+14:00"}]}]',
            "label 'cow': is no class",
        ),
        (b"PK\x03\x04broken", "is a damaged ZIP archive"),
    ],
)
def test_what_cannot_be_used_is_said_and_nothing_is_added(site, tmp_path, content, said):
    back = tmp_path / "back"
    back.write_bytes(content)
    with pytest.raises(UserError, match=said) as problem:
        import_file(site, back, "ann", confirm=True)
    assert "\n" not in str(problem.value)
    assert not (site / "corrections.csv").exists()


@pytest.mark.parametrize("part", [slice(0, 60), slice(3, -30), slice(0, 0)])
def test_a_zip_that_is_damaged_is_called_so(site, tmp_path, part):
    _, [file] = exported(site, "cvat", 4)
    back = tmp_path / "back.zip"
    back.write_bytes(file.read_bytes()[part])
    with pytest.raises(UserError, match=r"back\.zip: is a damaged ZIP archive \("):
        import_file(site, back, "ann", confirm=True)
    assert not (site / "corrections.csv").exists()


def test_a_corrections_file_of_other_data_is_left_alone(site, tmp_path):
    from feddiv.data.corrections import Decision, DecisionKind

    back = tmp_path / "back.csv"
    back.write_text("sample,label\ncat/one.png,dog\n")
    row = Decision("elsewhere.png", "cat", DecisionKind.SKIP, "", "ann", "2026-01-01T00:00:00Z")
    append(site / "corrections.csv", [row])
    before = (site / "corrections.csv").read_bytes()
    with pytest.raises(UserError, match="for other data"):
        import_file(site, back, "ann", confirm=False)
    assert (site / "corrections.csv").read_bytes() == before


def test_decisions_come_back_to_a_list_that_a_corrected_run_has_written(site, tmp_path):
    back = tmp_path / "back.csv"
    back.write_text("sample,label\ncat/one.png,dog\n")
    import_file(site, back, "ann", confirm=False)
    listed = site / "labels.csv"
    with listed.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    for row in rows:
        if row["sample"] == "cat/one.png":
            row["given_label"] = "dog"
    with listed.open("w", newline="") as opened:
        table = csv.DictWriter(opened, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    back.write_text("sample,label\ncat/one.png,cat\n")
    found = import_file(site, back, "ann", confirm=False)
    assert (found.corrected, found.known) == (1, 0)
    assert [row[2] for row in decided(site)] == ["dog", "cat"]


def test_a_folder_that_is_neither_is_refused(tmp_path):
    with pytest.raises(UserError, match="is neither the folder of a run nor a site's"):
        site_audits(tmp_path)
