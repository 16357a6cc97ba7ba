"""`feddiv audit merge`, `export` and `import`."""

import json

import pytest
from tests.audits.exchange.sites import NAMES, write_site
from tests.data.corrections.rows import decided

from feddiv.data.corrections import append, read


def test_merge_says_how_far_reviewers_agree(command, tmp_path):
    append(tmp_path / "ann.csv", [decided("a.png", "confirm"), decided("b.png", "confirm")])
    bob = [
        decided("a.png", "correct", "dog", reviewer="bob"),
        decided("b.png", "confirm", reviewer="bob"),
        decided("c.png", "skip", reviewer="bob"),
    ]
    append(tmp_path / "bob.csv", bob)
    outcome = command("audit", "merge", "ann.csv", "bob.csv", "--out", "both.csv")
    assert outcome.code == 0, outcome.err
    assert "Reviewer   ann: 2 confirmed, 0 corrected" in outcome.out
    assert "Agreement  ann and bob: 1 of 2 labels alike, Cohen's κ 0.00" in outcome.out
    assert "a.png" in outcome.out
    assert "ann: cat, bob: dog" in outcome.out
    assert "Conflicts  1, to be settled by feddiv review" in outcome.out
    assert len(read(tmp_path / "both.csv").decisions) == 5


def test_merge_of_a_crowd_says_the_most_and_no_more(command, tmp_path):
    crowd = [
        decided("a.png", "correct", "dog", reviewer=f"{number:04d}", second=number % 60)
        for number in range(300)
    ]
    append(tmp_path / "crowd.csv", crowd)
    again = [
        decided("c.png", "correct", "dog", reviewer=f"{number:04d}", second=number % 60)
        for number in range(200)
    ]
    append(tmp_path / "again.csv", [*again, decided("a.png", "confirm", reviewer="0000")])
    outcome = command("audit", "merge", "crowd.csv", "again.csv", "--out", "all.csv")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert len(read(tmp_path / "all.csv").decisions) == 501
    assert sum(line.startswith("Agreement  ") for line in lines) == 51
    assert "Reviewer   and 250 more" in lines
    assert "And 150 more such lines." in lines
    assert "Agreement  other pairs, who judged less, are not shown" in lines
    assert len(lines) < 300


def test_merge_needs_two_files_of_the_same_data(refused, tmp_path):
    append(tmp_path / "ann.csv", [decided("a.png", "confirm")])
    assert "two reviewers or more" in refused("audit", "merge", "ann.csv")
    assert "cannot be read" in refused("audit", "merge", "ann.csv", "none.csv")
    (tmp_path / "labels.csv").write_text("sample,label\na,b\n")
    assert "is no corrections file" in refused("audit", "merge", "ann.csv", "labels.csv")


def test_labels_go_to_a_tool_and_come_back(command, tmp_path):
    site = write_site(tmp_path)
    outcome = command("audit", "export", site, "--to", "csv", "--worst", 3)
    assert outcome.code == 0, outcome.err
    assert "Exported   3 labels of 1 sites" in outcome.out
    text = (site / "to-review.csv").read_text().splitlines()
    (tmp_path / "back.csv").write_text("\n".join([text[0], text[1] + "dog"]) + "\n")
    outcome = command("audit", "import", site, "back.csv", "--reviewer", "ann")
    assert outcome.code == 0, outcome.err
    assert "Imported   0 labels confirmed, 1 corrected" in outcome.out
    assert [row.label for row in read(site / "corrections.csv").decisions] == ["dog"]
    outcome = command("audit", "export", site, "--to", "label-studio", "--prefix", "/files/")
    assert "label-studio.xml" in outcome.out
    tasks = json.loads((site / "label-studio.json").read_text())
    assert tasks[0]["data"]["image"] == f"/files/{NAMES[0]}"


def test_slips_of_the_pen_are_told(refused, tmp_path):
    site = write_site(tmp_path)
    assert "there are label-studio, cvat, csv" in refused("audit", "export", site, "--to", "cvta")
    said = refused("audit", "export", site, "--to", "cvat", "--prefix", "/files/")
    assert "CVAT's archive has the images in it" in said
    assert "neither the folder of a run" in refused("audit", "export", tmp_path, "--to", "csv")
    assert "cannot be read" in refused("audit", "import", site, "none.json")
    assert "labels.csv" in refused("audit", "import", tmp_path, "none.json")


@pytest.mark.slow
def test_the_clients_of_a_run_are_exported_with_their_images(command, tmp_path):
    import zipfile

    import feddiv

    settings = {
        "against": [],
        "rounds": 2,
        "data.images": 120,
        "data.test_images": 40,
        "clients.count": 2,
        "clients.fraction": 1.0,
        "warmup.iterations": 1,
        "train.epochs": 1,
    }
    feddiv.run("quickstart", settings, out=tmp_path / "run", workers=0)
    outcome = command("audit", "export", "run", "--to", "cvat", "--worst", 5)
    assert outcome.code == 0, outcome.err
    assert "Exported   10 labels of 2 sites" in outcome.out
    with zipfile.ZipFile(tmp_path / "run" / "clients" / "0001" / "cvat.zip") as packed:
        assert len(packed.namelist()) == 5
    outcome = command("audit", "export", "run/clients/0001", "--to", "label-studio")
    assert outcome.code == 0, outcome.err
    assert "of 1 sites" in outcome.out
    folder = tmp_path / "run" / "clients" / "0001"
    outcome = command(
        "audit",
        "import",
        folder,
        folder / "cvat.zip",
        "--reviewer",
        "ann",
        "--unchanged",
        "confirm",
    )
    assert "Imported   5 labels confirmed, 0 corrected" in outcome.out
