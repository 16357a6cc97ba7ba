"""How pages are written."""

import yaml
from docs.generate.config_keys import groups
from tests.docs.pages import ROOT, pages, prose_lines

import feddiv

WIDTH = 100


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


def test_the_citation_names_this_version_and_the_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == feddiv.__version__
    (paper,) = citation["references"]
    assert [author["family-names"] for author in paper["authors"]] == [
        *("Li", "Li", "Cheng", "Liao", "Yu")
    ]
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert paper["title"] in readme
