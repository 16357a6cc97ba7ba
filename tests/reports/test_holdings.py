from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from feddiv.core.errors import UserError
from feddiv.data import Dataset, Draw
from feddiv.data.noise import Foreign
from feddiv.reports.holdings import holdings
from feddiv.reports.holdings_picture import draw_holdings, save_holdings


def test_what_clients_hold_in_numbers(small_data: Dataset, small_draw: Draw) -> None:
    held = holdings(small_data, replace(small_draw, kinds=("none", "pair", "pair")))
    first, second, third = held.clients
    assert (first.samples, second.samples, third.samples) == (2, 4, 6)
    assert first.counts == (1, 1, 0)
    assert (first.classes, second.classes) == (2, 3)
    assert second.counts == (1, 1, 2)
    assert [client.wrong for client in held.clients] == [0, 0.25, 1 / 6]
    assert [client.level for client in held.clients] == [0, 0.25, 1 / 6]
    assert [client.kind for client in held.clients] == ["none", "pair", "pair"]
    assert (held.samples, held.unheld, held.wrong) == (12, 0, pytest.approx(2 / 12))
    tree = held.as_dict()
    assert tree["classes"] == ("red", "green", "blue")
    assert tree["clients"][1]["counts"] == (1, 1, 2)
    assert tree["clients"][1]["classes"] == 3
    assert tree["draw"] == replace(small_draw).hash


def test_without_the_truth_given_labels_are_counted(small_data: Dataset, small_draw: Draw) -> None:
    held = holdings(small_data, replace(small_draw, truth=None, levels=None, names=("a", "b", "c")))
    assert not held.by_truth
    assert held.wrong is None
    assert [client.name for client in held.clients] == ["a", "b", "c"]
    assert held.clients[1].counts == (0, 2, 2)  # sample 3 is a 0 that is called 1
    assert held.clients[1].wrong is None


def test_samples_kept_out_are_somebodys(small_data: Dataset, small_draw: Draw) -> None:
    parts = (np.arange(0, 2), np.arange(2, 5), np.arange(6, 9))
    out = (np.array([], np.int64), np.array([5]), np.array([9, 10]))
    held = holdings(small_data, replace(small_draw, parts=parts, held_out=out))
    assert [client.held_out for client in held.clients] == [0, 1, 2]
    assert [client.samples for client in held.clients] == [2, 3, 3]
    assert (held.samples, held.held_out, held.unheld) == (8, 3, 1)
    tree = held.as_dict()
    assert (tree["held_out"], tree["clients"][2]["held_out"]) == (3, 2)


def test_foreign_images_are_in_no_class(small_data: Dataset, small_draw: Draw) -> None:
    truth = small_draw.given.copy()
    truth[[2, 3]] = -1
    rows = np.full(12, -1)
    rows[[2, 3]] = (5, 6)
    foreign = Foreign("other", rows, "")
    held = holdings(small_data, replace(small_draw, truth=truth, foreign=foreign))
    second = held.clients[1]
    assert (second.outside, sum(second.counts), second.samples) == (2, 2, 4)
    assert second.wrong == 0.5


@pytest.mark.parametrize("clients", [1, 10, 100])
@pytest.mark.parametrize("known", [True, False])
def test_the_picture_has_a_row_for_each_client_and_a_column_for_each_class(
    small_data: Dataset, small_draw: Draw, clients: int, known: bool
) -> None:
    one = holdings(
        small_data, small_draw if known else replace(small_draw, truth=None, levels=None)
    )
    held = replace(one, clients=(one.clients * clients)[:clients])
    heat, bars = draw_holdings(held).axes[:2]
    assert heat.images[0].get_array().shape == (clients, 3)
    assert len(bars.patches) == clients
    assert [label.get_text() for label in heat.get_xticklabels()] == ["red", "green", "blue"]
    named = [label.get_text() for label in heat.get_yticklabels()]
    assert "0" in named
    assert len(named) == clients or clients > 30
    if known:
        assert [patch.get_width() for patch in bars.patches][:2] == [0, 0.25][:clients]
    else:
        assert bars.get_xlabel() == "wrong labels: not known"


def test_saving_the_picture(small_data: Dataset, small_draw: Draw, tmp_path: Path) -> None:
    held = holdings(small_data, small_draw)
    save_holdings(held, tmp_path / "picture.png")
    assert Image.open(tmp_path / "picture.png").size[0] > 800
    (tmp_path / "folder.png").mkdir()
    for name, said in [
        ("a.txt", r"ends in \.png"),
        ("nowhere/a.png", "there is no folder"),
        ("folder.png", "is a folder"),
    ]:
        with pytest.raises(UserError, match=said):
            save_holdings(held, tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.png", "picture.png"]
