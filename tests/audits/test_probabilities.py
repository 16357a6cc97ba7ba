"""Audits without training: sites exchange the filter alone."""

import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import feddiv
from feddiv.audits.folder import read_audit, write_audit
from feddiv.audits.page import labels_page
from feddiv.audits.probabilities import audits_of_predictions, read_predictions
from feddiv.audits.probability_file import ProbabilityFile
from feddiv.audits.shared_filter import as_logits, judged, learnt_together
from feddiv.cli import main
from feddiv.core.errors import UserError
from feddiv.data.sources.npz import build_dataset


def cli(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(each) for each in arguments])
    return ended.value.code


def site(seed, count, wrong, classes=5):
    """Probabilities of a good model, labels of which a share is wrong, and which."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, count)
    logits = rng.normal(0, 1, (count, classes))
    logits[np.arange(count), truth] += 5
    given = np.where(
        rng.random(count) < wrong, (truth + rng.integers(1, classes, count)) % classes, truth
    )
    odds = np.exp(logits)
    return odds / odds.sum(axis=1, keepdims=True), given, given != truth


SITES = [site(0, 400, 0.0), site(1, 300, 0.3), site(2, 500, 0.6)]


def test_every_site_gets_a_mask_a_ranking_and_an_estimate():
    audits = feddiv.audit(probabilities=[s[0] for s in SITES], labels=[s[1] for s in SITES])
    for audit, (_, _, wrong) in zip(audits, SITES, strict=True):
        assert abs(audit.estimate.share - wrong.mean()) < 0.03
        assert audit.estimate.low - 0.01 <= wrong.mean() <= audit.estimate.high + 0.01
        issues = audit.is_label_issue
        assert issues.sum() == round((1 - audit.judged.quality).sum())
        assert set(audit.ranking[: issues.sum()]) == set(np.flatnonzero(issues))
        assert (issues & wrong).sum() >= 0.93 * max(wrong.sum(), 1) * bool(wrong.any())
    assert audits[0].is_label_issue.sum() <= 4  # of a clean site's 400 labels
    assert wrong[audits[2].ranking[:50]].all()
    assert len(audits.table) == 1200


@pytest.mark.parametrize("classes", [2, 4, 10])
@pytest.mark.parametrize("apart", [2.0, 3.0, 4.0])
@pytest.mark.parametrize("shares", [(0.0, 0.02, 0.2, 0.4), (0.03, 0.05, 0.05, 0.08), (0, 0, 0, 0)])
def test_good_models_are_believed_whatever_the_number_of_classes(classes, apart, shares):
    """Their scores end at the edge of the histogram, and so few look like a mixture of two."""
    rng = np.random.default_rng(7)
    sites = []
    for share in shares:
        truth = rng.integers(0, classes, 400)
        looks = rng.normal(0, 1, (400, classes))
        looks[np.arange(400), truth] += apart
        odds = np.exp(apart * (looks - looks.max(axis=1, keepdims=True)))  # by Bayes' rule
        wrong = rng.random(400) < share
        given = np.where(wrong, (truth + rng.integers(1, classes, 400)) % classes, truth)
        sites.append((odds / odds.sum(axis=1, keepdims=True), given, wrong))
    audits = feddiv.audit(probabilities=[s[0] for s in sites], labels=[s[1] for s in sites])
    for audit, (_, _, wrong) in zip(audits, sites, strict=True):
        assert abs(audit.estimate.share - wrong.mean()) < 0.12
        if wrong.mean() > 0.1:
            found = (audit.is_label_issue & wrong).sum()
            assert 2 * found > 0.65 * (audit.is_label_issue.sum() + wrong.sum())  # F1


def test_predictions_that_say_nothing_find_nothing_and_say_so():
    given = np.arange(50) % 4
    [audit] = feddiv.audit(probabilities=[np.full((50, 4), 0.25)], labels=[given])
    assert audit.estimate is None  # and not 0 %
    assert "equally likely" in audit.missing[0]
    assert audit.columns()["is_label_issue"] == [None] * 50


def test_what_was_written_is_read_with_all_classes_and_the_interval(tmp_path):
    """Also where the list has one class alone: an expert may know better."""
    [audit] = feddiv.audit(probabilities=[SITES[0][0]], labels=[SITES[0][1]], classes="abcde")
    some = np.flatnonzero((audit.given == 1) & (audit.opinion.predicted == 1))[:9]
    [one] = feddiv.audit(
        probabilities=[SITES[0][0][some]], labels=[SITES[0][1][some]], classes="abcde"
    )
    write_audit(tmp_path, one, page=False)
    again, estimate = read_audit(tmp_path)
    assert again.classes == tuple("abcde")
    assert set(again.columns()["given_label"] + again.columns()["predicted_label"]) == {"b"}
    assert estimate == one.estimate


@pytest.mark.parametrize(
    ("probabilities", "labels"),
    [([[0.5, 0.5], [1.0]], [0, 1]), ([[0.5, 0.5], [1, 0]], [0, [1, 2]]), ("ab", [0, 1])],
)
def test_lists_that_are_no_arrays_are_refused_in_one_line(probabilities, labels):
    with pytest.raises(UserError, match=r"^site 0: (probabilities|labels) are"):
        feddiv.audit(probabilities=[probabilities], labels=[labels])


def test_a_page_leaves_no_room_for_samples_that_are_not_here():
    [audit] = feddiv.audit(probabilities=[SITES[1][0]], labels=[SITES[1][1]])
    assert 'class="look"' not in labels_page(audit)


def test_what_leaves_a_site_is_added_up_so_that_how_samples_are_dealt_does_not_matter():
    """The filter is learnt from sums: one site with everything learns the same histogram."""
    pairs = [(as_logits(p), y) for p, y, _ in SITES[1:]]
    apart = learnt_together(pairs)
    logits, labels = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    whole = learnt_together([(logits, labels)])
    assert apart["mixture"].shape == (6,)
    assert np.allclose(apart["bias"], whole["bias"])
    assert np.allclose(apart["mixture"], whole["mixture"])
    opinion = judged(*pairs[0], apart)
    assert opinion.second_opinion is not None


def test_any_torch_net_will_do():
    net = torch.nn.Linear(5, 5)
    with torch.no_grad():
        net.weight.copy_(torch.eye(5))
        net.bias.zero_()
    inputs = [as_logits(p).astype(np.float32) for p, _, _ in SITES]
    labels = [s[1] for s in SITES]
    of_net = feddiv.audit(model=net, samples=inputs, labels=labels)
    direct = feddiv.audit(probabilities=[s[0] for s in SITES], labels=labels)
    assert net.training
    for one, other in zip(of_net, direct, strict=True):
        assert one.estimate.share == pytest.approx(other.estimate.share, abs=1e-4)


def test_files_of_probabilities(tmp_path):
    p, y, _ = SITES[1]
    names = [f"scan{n}.png" for n in range(len(y))]
    classes = [f"class {n}" for n in range(5)]
    np.savez(tmp_path / "north.npz", probabilities=p, labels=y, classes=classes, samples=names)
    header = ",".join(["sample", "label", *classes])
    lines = [
        ",".join([name, classes[label], *(f"{value:.6f}" for value in row)])
        for name, label, row in zip(names, y, p, strict=True)
    ]
    (tmp_path / "south.csv").write_text("\n".join([header, *lines]) + "\n")
    found = [read_predictions(tmp_path / name) for name in ("north.npz", "south.csv")]
    assert [each.site for each in found] == ["north", "south"]
    north, south = audits_of_predictions(found)
    assert north.name(0) == south.name(0) == "scan0.png"
    assert north.classes == south.classes == tuple(classes)
    assert (north.is_label_issue == south.is_label_issue).mean() > 0.99


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"probabilities": np.eye(2)}, "labels are missing"),
        ({"probabilities": np.eye(2), "labels": [0, 1], "x": [1]}, "unknown array 'x'"),
        ({"probabilities": np.eye(2), "labels": [0, 2]}, "holds label 2"),
        ({"probabilities": np.eye(2), "labels": [0]}, "2 numbers or names"),
        ({"probabilities": np.eye(2)[0], "labels": [0, 1]}, "one row for each sample"),
        ({"probabilities": np.full((2, 2), 0.6), "labels": [0, 1]}, "sum to 1, not 1.2"),
        ({"probabilities": [[1.25, -0.25]], "labels": [0]}, "0 at least and sum to 1, not -0.25"),
        ({"probabilities": [[np.nan, 1.0]], "labels": [0]}, "row 0 holds no probabilities"),
        ({"probabilities": [[1e308, 1e308]], "labels": [0]}, "sum to 1, not inf"),
        ({"probabilities": [[1.0]], "labels": [0]}, "2 at least"),
        ({"probabilities": np.eye(2), "labels": ["a", "c"], "classes": ["a", "b"]}, "'c'"),
        ({"probabilities": np.eye(2), "labels": [0, 1], "classes": "a"}, r"classes are <U1 \[\]"),
        ({"probabilities": np.eye(2), "labels": [0, 1], "samples": 3}, r"samples are int64 \[\]"),
        ({"probabilities": np.eye(2), "labels": [0, 1], "samples": [["a"]]}, "one dimension"),
    ],
)
@pytest.mark.filterwarnings("error")  # it would be a second line
def test_a_file_that_holds_none_is_refused_in_one_line(tmp_path, arrays, said):
    file = tmp_path / "mine.npz"
    np.savez(file, **arrays)
    with pytest.raises(UserError, match=said) as told:
        read_predictions(file)
    assert "\n" not in str(told.value)
    assert "mine.npz" in str(told.value)


def test_a_large_file_with_one_mistake_at_its_end_is_refused_soon(tmp_path):
    count = 40_000
    names = np.arange(count).astype(str)
    names[-1] = names[-2]
    values = np.broadcast_to([1.0, 0.0], (count, 2))
    np.savez(tmp_path / "mine.npz", probabilities=values, samples=names)
    labels = np.arange(count) % 2
    data = build_dataset({"x": np.zeros((count, 1), np.float32), "y": labels}, "python", None)
    began = time.monotonic()
    with pytest.raises(UserError, match="sample '39998' is there more than once"):
        ProbabilityFile.read(tmp_path / "mine.npz", "x").of_samples(data, in_order=True)
    assert time.monotonic() - began < 5  # each name compared with each takes a minute


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (b"label,a,\xff\na,0.5,0.5\n", r"column \udcff is not UTF-8"),
        (b"label,a,b\n\xff,0.5,0.5\n", "udcff"),
        (b"sample,label,a,b\nx,a,1,0\n\xff,a,0.5,0.5\n", r"line 3: sample \udcff is not UTF-8"),
    ],
)
def test_a_table_of_another_encoding_is_refused_before_anything_is_written(
    tmp_path, capsys, table, said
):
    (tmp_path / "mine.csv").write_bytes(table)
    out = tmp_path / "out"
    assert cli("audit", "--probabilities", tmp_path / "mine.csv", "--out", out) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("file", "site"),
    [
        ("...npz", "site"),
        ("..npz", "site"),
        (". .npz", "site"),
        ("north.npz", "north"),
        ("\udcff\x1b.npz", r"\udcff\x1b"),
        ("\udcff" * 80 + ".npz", None),
    ],
)
def test_a_sites_folder_is_inside_of_out_whatever_its_file_is_called(tmp_path, file, site):
    given = tmp_path / "given"
    given.mkdir()
    p, y, _ = SITES[1]
    with (given / file).open("wb") as opened:
        np.savez(opened, probabilities=p, labels=y)
    out = tmp_path / "x" / "aud"
    assert cli("audit", "--probabilities", given / file, "--out", out) == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["given", "x"]
    assert [each.name for each in out.parent.iterdir()] == ["aud"]
    (folder,) = out.iterdir()
    assert site in (folder.name, None)
    assert sorted(each.name for each in folder.iterdir()) == [
        "audit.json",
        "labels.csv",
        "labels.html",
    ]


def test_an_audit_that_cannot_be_written_leaves_nothing(tmp_path):
    p, y, _ = SITES[1]
    (audit,) = feddiv.audit(probabilities=[p], labels=[y])
    with pytest.raises(UnicodeEncodeError):
        write_audit(tmp_path / "site", replace(audit, name=lambda row: "\udcff"))
    assert not (tmp_path / "site").exists()


def test_sites_have_to_have_the_same_classes(tmp_path):
    for name, classes in (("a", ["x", "y"]), ("b", ["x", "z"])):
        np.savez(tmp_path / f"{name}.npz", probabilities=np.eye(2), labels=[0, 1], classes=classes)
    with pytest.raises(UserError, match="all have to have the same"):
        audits_of_predictions([read_predictions(tmp_path / f"{name}.npz") for name in "ab"])


def test_a_site_with_one_class_and_one_with_nothing():
    p, y, _ = SITES[1]
    only = y == 3
    audits = feddiv.audit(
        probabilities=[p, p[only], p[:0]], labels=[y, y[only], y[:0]], classes=list("abcde")
    )
    assert len(audits[2]) == 0
    assert audits[1].estimate.share > 0.1
    with pytest.raises(UserError, match="labels of 0 sites for 1"):
        feddiv.audit(probabilities=[p])
    with pytest.raises(UserError, match="one of them"):
        feddiv.audit()
