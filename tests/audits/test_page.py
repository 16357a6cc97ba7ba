"""The page of one site: what it says, what it shows, and that names do nothing to it."""

import numpy as np
import pytest
import torch
from PIL import Image
from tests.audits.made import PREDICTED, made
from tests.browser import opened

from feddiv.audits.label_audit import LabelAudit
from feddiv.audits.page import labels_page
from feddiv.audits.sample_views import views_of
from feddiv.audits.words import verdict
from feddiv.core.randomness import Streams
from feddiv.data import Augment, DataOptions, Dataset, load_dataset
from feddiv.data.dataset import Split
from feddiv.methods.contract import Assessment

NASTY = ("<script>document.title='hit'</script>", '"><img src=x onerror=alert(1)>', "a&b")


def test_the_summary_in_words():
    count = 1000
    quality = np.where(np.arange(count) < 300, 0.01, 0.999)
    opinion = Assessment(np.zeros(count, np.int64), quality, second_opinion=quality.copy())
    audit = LabelAudit("north", ("a", "b"), np.ones(count, np.int64), opinion)
    # 297 + 0.7 = 297.7; chance and what no share is known better than: (300 * .0099 + 700 *
    # .000999) / 1000^2 + .005^2 = .0000287; both opinions off together: .14 * .298 * .702 = .0293;
    # 1.96 * sqrt(.0000287 + .0293^2) = .058
    assert verdict(audit) == [
        "About 30 % (24 to 36) of these 1,000 labels look wrong.",
        "The first 298 of the list are almost surely wrong.",
        "All labels of this site are of one class, b.",
    ]


def test_what_is_missing_is_said():
    page = labels_page(made(opinion=None, missing=("The run has no checkpoint yet.",)))
    assert "The run has no checkpoint yet." in page
    assert "Nobody has judged these 6 labels" in page
    blank = '<td class="number"></td>' * 2  # expected wrong, issues
    assert f'<td>eel</td><td class="number">3</td>{blank}' in page
    alone = labels_page(made(opinion=Assessment(PREDICTED, np.full(6, 0.9))))
    assert "How sure that is cannot be said" in alone


@pytest.mark.parametrize(
    ("given", "classes"), [([], ("a", "b")), ([0, 0], ("a",)), ([1, 1, 1], ("a", "b"))]
)
def test_sites_with_no_label_and_with_one_class_have_a_page(given, classes):
    labels = np.array(given, np.int64)
    quality = np.full(len(labels), 0.99)
    opinion = Assessment(labels, quality, second_opinion=quality, confidence=quality)
    page = labels_page(LabelAudit("odd", classes, labels, opinion))
    assert page.startswith("<!doctype html>")
    assert ("There are no labels here" in page) == (not given)
    assert ("All labels of this site are of one class" in page) == bool(given)


def test_of_one_class_there_is_no_share_of_the_gallery():
    opinion = Assessment(np.zeros(3, np.int64), np.full(3, 0.1))
    page = labels_page(LabelAudit("odd", ("a", "b"), np.ones(3, np.int64), opinion))
    assert "The 3 most doubtful labels, the worst first. Given label" in page
    assert "All labels of this site are of one class, b." in page
    assert "of one class" not in labels_page(made())
    unjudged = labels_page(LabelAudit("odd", ("a", "b"), np.ones(3, np.int64), None))
    assert "All labels of this site are of one class, b." in unjudged


def test_rare_classes_are_among_the_worst_that_are_shown():
    """A hundred issues of one class are worse than the three of another."""
    quality = np.concatenate([np.full(100, 0.0), np.full(3, 0.1), np.full(50, 1.0)])
    given = np.array([0] * 100 + [1] * 3 + [2] * 50)
    opinion = Assessment(np.full(153, 2), quality, second_opinion=quality)
    audit = LabelAudit("x", ("many", "few", "rest"), given, opinion, lambda row: f"no {row}.")
    page = labels_page(audit)
    assert all(f"no {row}." in page for row in (100, 101, 102))
    assert page.count("<figure>") == 63


def dataset_of(inputs, **more):
    labels = torch.zeros(len(inputs), dtype=torch.int64)
    split = Split(inputs, labels)
    empty = split.chosen(torch.arange(0))
    return Dataset("x", ("a", "b"), split, empty, (0.0,), (1.0,), Augment(), None, **more)


def test_samples_are_shown_as_images_or_numbers(tmp_path):
    grey = views_of(dataset_of(torch.zeros((2, 8, 8, 1), dtype=torch.uint8)))
    assert grey(1).startswith('<img src="data:image/png;base64,')
    large = views_of(dataset_of(torch.zeros((2, 64, 64, 3), dtype=torch.uint8)))
    assert "data:image/jpeg" in large(0)
    vectors = views_of(dataset_of(torch.tensor([[1.5, 2.0]]), columns=("width", "<b>")))
    assert vectors(0) == '<span class="vector">width = 1.5\n&lt;b&gt; = 2</span>'
    assert "… 9 numbers" in views_of(dataset_of(torch.zeros((1, 9))))(0)


def test_of_images_in_files_the_original_is_shown(tmp_path):
    for label, shape in (("a", (90, 60)), ("b", (60, 90))):
        for number in range(3):
            file = tmp_path / label / f"{number}.png"
            file.parent.mkdir(exist_ok=True)
            Image.new("RGB", shape, "red").save(file)
    options = DataOptions(source="folder", path=tmp_path, size=8)
    dataset = load_dataset(options, Streams(0), with_test=False)
    assert dataset.name_of(0) == "a/0.png"
    shown = views_of(dataset)(0)
    assert 'class="picture"' in shown  # 90 x 60 pixels, not the 8 x 8 of the net
    (tmp_path / "a" / "0.png").unlink()
    assert 'class="tiny"' in views_of(dataset)(0)


@pytest.mark.slow
def test_the_page_in_a_browser(browser, tmp_path):
    view = views_of(dataset_of(torch.full((6, 8, 8, 1), 128, dtype=torch.uint8)))
    file = tmp_path / "labels.html"
    file.write_text(labels_page(made(NASTY, name=lambda row: NASTY[row % 3], view=view)), "utf-8")
    with opened(browser, file) as there:
        page = there.page
        assert page.title() == "Labels of north"
        assert page.locator("figure").count() == 3
        page.wait_for_function(  # images load when they are near, after the page itself
            "() => [...document.querySelectorAll('figure img')].every(i => i.naturalWidth == 8)"
        )
        assert page.locator("figure img").count() == 3
        assert NASTY[2] in page.locator("#confusions").inner_text()
        assert page.locator("#summary .lead").first.inner_text().startswith("About 50 %")
    for width in (360, 1280):
        with opened(browser, file, width=width, theme="dark") as there:
            assert there.page.evaluate("document.documentElement.scrollWidth") <= width
