"""How pages are written, and figures that have a home elsewhere."""

import re

import yaml
from docs.generate.config_keys import groups
from tests.docs.pages import ROOT, pages, prose_lines

import feddiv

WIDTH = 100


def rows(text: str) -> list[list[str]]:
    """The cells of all rows of tables."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_lines_are_wrapped() -> None:
    long = [
        f"{page.relative_to(ROOT)}:{number}"
        for page in pages()
        for number, line in prose_lines(page)
        if len(line) > WIDTH and "](" not in line  # a link cannot be wrapped
    ]
    assert long == []


def test_every_config_key_is_explained() -> None:
    assert [key for group in groups() for key in group.unexplained] == []


def test_the_headline_figures_are_those_of_the_results() -> None:
    results = {
        (setting, method): (float(mean.strip("*")), float(best))
        for setting, method, _, mean, best, *_ in _measured()
    }
    _, *table = [row for row in rows((ROOT / "README.md").read_text()) if len(row) == 6]
    assert len(table) == 1 + 6  # a line below the head, and six rows
    setting = ""
    for data, which, *percent in table[1:]:
        named = re.search(r"`([\w-]+)`", data)
        setting = named[1] if named else setting
        methods = ("FedAvg", "FedDiv (paper)", "FedDiv (plus)", "perfect filter")
        for method, shown in zip(methods, percent, strict=True):
            expected = results[setting, method][which == "best"]
            assert shown.strip("*") == f"{expected:.1%}", (setting, method, which)


def _measured() -> list[list[str]]:
    """Rows of the two tables that the README takes figures from; the first of a name counts."""
    text = (ROOT / "docs" / "results.md").read_text()
    parts = re.split(r"^## ", text, flags=re.MULTILINE)
    chosen = [part for part in parts if part.startswith(("Digits\n", "CIFAR-10, laptop size\n"))]
    assert len(chosen) == 2
    return [row for part in chosen for row in rows(part) if re.match(r"\d\.\d", row[4])]


def test_the_citation_names_this_version_and_the_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == feddiv.__version__
    (paper,) = citation["references"]
    assert [author["family-names"] for author in paper["authors"]] == [
        *("Li", "Li", "Cheng", "Liao", "Yu")
    ]
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert paper["title"] in readme
