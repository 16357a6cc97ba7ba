"""What there is to review in a folder, and how samples look."""

import numpy as np
import pytest
from tests.review.sites import CLASSES, audited, many, photos

import feddiv
from feddiv.audits.folder import read_audit, write_audit
from feddiv.core.errors import UserError
from feddiv.review.opening import reviewable

SETTINGS = {
    "against": [],
    "rounds": 2,
    "data.images": 120,
    "clients.count": 3,
    "clients.fraction": 1.0,
    "warmup.iterations": 1,
    "train.epochs": 1,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """FedDiv on 120 digits at three clients."""
    out = tmp_path_factory.mktemp("runs") / "run"
    return feddiv.run("quickstart", SETTINGS, out=out, workers=0).folder


@pytest.mark.slow
def test_the_clients_of_a_run(run):
    sites = reviewable(run)
    assert [site.name for site in sites] == ["client 0", "client 1", "client 2"]
    assert sum(site.labels for site in sites) == 120
    [one] = reviewable(run, 1)
    [same] = reviewable(run / "clients" / "0001")
    assert one.folder == run / "clients" / "0001"
    assert same.folder.resolve() == one.folder.resolve()
    labels, audit = one.open(), feddiv.audit(run)[1]
    assert list(labels.names) == audit.columns()["sample"]
    assert [labels.classes[given] for given in labels.given] == audit.columns()["given_label"]
    assert labels.looks.kind == "image"
    assert labels.looks.picture(0, 192)[1] == "png"  # every pixel of a small image
    assert labels.described()["expected"][0] == round(audit.estimate.share * len(audit))
    for client in (3, -1):
        with pytest.raises(UserError, match="has clients 0 to 2"):
            reviewable(run, client)


@pytest.mark.slow
def test_a_run_without_a_checkpoint_has_no_audit(run, tmp_path):
    for name in ("config.toml", "draw.npz"):
        (tmp_path / name).write_bytes((run / name).read_bytes())
    with pytest.raises(UserError, match="there is no audit to review"):
        reviewable(tmp_path)


def test_a_site_by_itself(tmp_path):
    folder = photos(tmp_path)
    [site] = reviewable(folder)
    labels = site.open()
    assert (site.name, site.labels, len(labels)) == ("north", 12, 12)
    assert labels.names[:3] == ("cat/0.png", "dog/1.png", "eel/2.png")  # the worst first
    assert labels.issues.sum() == 6
    expected = labels.described()["expected"]
    assert expected[0] == 6
    assert expected[1] < 6 < expected[2]
    assert labels.looks.picture(0, 192)[1] == "jpeg"
    assert labels.corrections == folder / "corrections.csv"


def test_what_was_written_is_read_back(tmp_path):
    audit, estimate = read_audit(photos(tmp_path))
    write_audit(tmp_path / "again", audit, page=False)
    first, second = ((tmp_path / name / "labels.csv").read_text() for name in ("site", "again"))
    assert first == second
    assert estimate.low < estimate.share < estimate.high
    assert audit.data == tmp_path / "data"


def test_data_that_moved_are_named(tmp_path):
    folder = photos(tmp_path)
    (tmp_path / "data").rename(tmp_path / "moved")
    labels = reviewable(folder)[0].open()
    assert labels.looks.kind == "nothing"
    assert "--data says where they are" in labels.notes[0]
    assert labels.looks.picture(0, 192) is None
    labels = reviewable(folder, data=tmp_path / "moved")[0].open()
    assert labels.looks.picture(0, 192) is not None
    many(tmp_path / "other", 30)
    [site] = reviewable(folder, data=tmp_path / "other" / "data.npz")
    with pytest.raises(UserError, match="has none of the samples"):
        site.open()


def test_several_sites_in_one_folder(tmp_path):
    for name in ("north", "south"):
        audited(tmp_path / name, [f"{name}{row}" for row in range(4)])
    sites = reviewable(tmp_path)
    assert [site.folder.name for site in sites] == ["north", "south"]
    assert "--data names their folder" in sites[0].open().notes[0]


def test_vectors_come_with_what_their_table_knows(tmp_path):
    values = np.arange(36.0).reshape(12, 3)
    rows = [
        f"{CLASSES[row % 3]},ward {row},{'' if row else 'repeated'},{a},{b},{c}"
        for row, (a, b, c) in enumerate(values)
    ]
    table = tmp_path / "cells.csv"
    table.write_text("\n".join(["label,ward,remark,size,age,<b>", *rows]) + "\n")
    folder = audited(tmp_path / "site", [str(row) for row in range(12)], data=table)
    looks = reviewable(folder)[0].open().looks
    assert looks.kind == "vector"
    said = looks.described(0, whole=True)
    assert said["facts"] == [("ward", "ward 0"), ("remark", "repeated")]
    assert [(name, value) for name, value, _ in said["numbers"]] == [
        ("size", 0.0),
        ("age", 1.0),
        ("<b>", 2.0),
    ]
    assert said["numbers"][0][2] == pytest.approx(-1.59, abs=0.1)  # deviations below the mean
    assert looks.described(3, whole=True)["facts"] == [("ward", "ward 3")]


def test_texts_are_read_whole_and_in_short(tmp_path):
    long = "word " * 200
    rows = [f"{CLASSES[row % 3]},{row} {long},anna" for row in range(12)]
    table = tmp_path / "mails.csv"
    table.write_text("\n".join(["label,text,sender", *rows]) + "\n")
    folder = audited(tmp_path / "site", [str(row) for row in range(12)], data=table)
    looks = reviewable(folder)[0].open().looks
    assert looks.kind == "text"
    assert looks.described(2, whole=True)["text"] == f"2 {long}".strip()
    assert looks.described(2, whole=True)["facts"] == [("sender", "anna")]
    assert len(looks.described(2, whole=False)["text"]) == 281


def test_samples_that_share_a_name_are_left_out(tmp_path):
    folder = audited(tmp_path / "site", ["a", "b", "a", "c"])
    labels = reviewable(folder)[0].open()
    assert labels.names == ("b", "c")
    assert "2 samples share their names" in labels.notes[0]
