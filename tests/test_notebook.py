"""The worked notebook, executed from its first cell to its last."""

import csv
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from sklearn.datasets import load_digits

NOTEBOOK = Path(__file__).parents[1] / "examples" / "own_images.ipynb"


def test_outputs_are_not_kept_in_the_notebook() -> None:
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@pytest.mark.slow
def test_own_images_become_a_model_and_a_list_of_doubtful_labels(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()

    shown = {cell["id"]: cell.get("outputs", []) for cell in notebook.cells}
    page = shown["run"][-1]["data"]["text/html"]
    assert all(word in page for word in ("<td>", ">feddiv<", ">fedavg<", "data:image/png;base64,"))
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "model.safetensors").is_file()

    # The number of a scan says which digit it shows, whatever folder it lies in.
    truth = load_digits().target
    files = [file.relative_to(tmp_path) for file in tmp_path.glob("photos/train/*/*/*.png")]
    wrong = {file for file in files if str(truth[int(file.stem[5:])]) != file.parent.name}
    rows = []
    for file in folder.glob("clients/*/labels.csv"):
        with file.open(newline="") as lines:
            rows += csv.DictReader(lines)
    assert len(rows) == 800
    issues = [row for row in rows if row["is_label_issue"] == "True"]
    doubted = {Path("photos") / row["sample"] for row in issues}
    assert all(Path(row["sample"]).parts[2] == row["given_label"] for row in rows)
    assert "west: " in "".join(part.get("text", "") for part in shown["doubt"])
    assert 100 < len(wrong) < 250
    assert len(doubted & wrong) > 0.85 * max(len(doubted), len(wrong))
    # A kernel may send a line in parts.
    said = "".join(part.get("text", "") for part in shown["judge"])
    assert said == (
        f"{len(wrong)} of 800 labels are wrong, {len(doubted)} are doubted, "
        f"{len(doubted & wrong)} of these rightly\n"
    )
