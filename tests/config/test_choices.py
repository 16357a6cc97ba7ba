"""What naming a choice does to the options that a preset or a file sets for it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from feddiv.config.experiment import Experiment
from feddiv.config.reading import load_experiment

LAPTOP = {"base": "cifar10-laptop", "method": {"name": "feddiv", "filter": {"drop_below": 0.15}}}


def loaded(
    *overrides: str, source: str | Path | Mapping[str, Any] | None = LAPTOP
) -> tuple[Experiment, list[str]]:
    """The experiment, and what was said about it."""
    notes: list[str] = []
    return load_experiment(source, overrides, note=notes.append), notes


@pytest.mark.parametrize(
    "same",
    [
        ["method.variant=plus"],
        ["method.name=feddiv"],
        ["method.name=feddiv-plus"],
        ["method.name=feddiv", "method.variant=plus"],
        ["noise.levels=bernoulli"],
        ["noise.name=symmetric", "partition.name=iid", "model.name=cnn", "data.source=cifar10"],
        ["evaluation.name=central", "federation.name=local"],
    ],
)
def test_naming_what_is_chosen_already_keeps_its_options(same: list[str]) -> None:
    plain, _ = loaded()
    assert plain.method.model_dump()["filter"]["drop_below"] == 0.15
    assert loaded(*same) == (plain, [])


def test_the_same_in_a_file_on_top_of_a_preset(tmp_path: Path) -> None:
    file, plain = tmp_path / "mine.toml", load_experiment("quickstart")
    assert plain.noise != load_experiment(None, ["noise.name=symmetric"]).noise
    for same in ('[noise]\nname = "symmetric"', '[noise]\nlevels = "bernoulli"',
                 '[method]\nname = "feddiv-plus"', '[method]\nvariant = "plus"'):  # fmt: skip
        file.write_text(f'base = "quickstart"\n{same}\n')
        assert load_experiment(file) == plain
    file.write_text('base = "quickstart"\n[noise]\nname = "pair"\n')
    assert load_experiment(file).noise == load_experiment(None, ["noise.name=pair"]).noise


def test_a_choice_that_goes_without_saying_can_be_said_of_data_and_net() -> None:
    source = {"data": {"images": 300}, "model": {"stem": "cifar"}}
    for key, value in (("data.source", "digits"), ("model.name", "cnn")):
        notes: list[str] = []
        assert load_experiment(source, {key: value}, note=notes.append) == load_experiment(source)
        assert not notes


def test_another_choice_drops_them_and_says_so() -> None:
    found, notes = loaded("method.variant=paper")
    assert found.method == load_experiment(None, ["method.variant=paper"]).method
    assert notes == [
        "method.variant=paper leaves out method.filter.drop_below=0.15, "
        "set for what was chosen before"
    ]
    # Quickstart has symmetric noise at 8 of 10 clients: a pair flip of nobody is a trap.
    _, notes = loaded("noise.name=pair", source="quickstart")
    assert notes == [
        "noise.name=pair leaves out noise.rho=0.8, noise.tau=0.5, set for what was chosen before"
    ]


def test_all_that_is_left_out_is_named(tmp_path: Path) -> None:
    file = tmp_path / "t.toml"
    file.write_text("[data]\nsize = 16\nimages = 9\n[data.augment]\nflip = true\npad = 2\n")
    _, notes = loaded("data.source=folder", "data.path=x", "data.images=5", source=file)
    assert notes == [
        "data.source=folder leaves out data.size=16, data.augment.flip=True, data.augment.pad=2, "
        "set for what was chosen before"
    ]


def test_nothing_is_said_of_options_that_the_new_choice_has_not_or_that_are_set_anew() -> None:
    assert loaded("method.name=fedavg")[1] == []
    assert loaded("noise.name=none")[1] == []
    assert loaded("noise.levels=constant", "noise.level=0.3")[1] == []
    assert loaded("noise.name=pair", "noise.rho=0.3", "noise.tau=0.1")[1] == []


def test_nor_of_options_that_are_the_old_choices_own(tmp_path: Path) -> None:
    # A run's config.toml has every option written out.
    full = load_experiment("quickstart", ["noise.rho=0.3"])
    notes: list[str] = []
    load_experiment(full, ["method.variant=paper", "noise.name=pair"], note=notes.append)
    assert len(notes) == 1
    assert notes[0].startswith("noise.name=pair leaves out noise.rho=0.3, noise.tau=0.5, set")


def test_it_is_said_of_a_rival_too() -> None:
    _, notes = loaded("method.name=fedavg", "against=feddiv")
    assert notes == [
        "method.name=fedavg leaves out method.filter.drop_below=0.15, "
        "set for what was chosen before"
    ]


# Lists


@pytest.mark.parametrize(
    "against",
    [
        'against=["fedcorr", "feddiv-paper"]',
        "against=fedcorr,feddiv-paper",
        "against=fedcorr, feddiv-paper",
        "against=[fedcorr,feddiv-paper]",  # what is left of the first where a shell eats quotes
        "against=['fedcorr', 'feddiv-paper']",
    ],
)
def test_lists_without_quotes_and_brackets(against: str) -> None:
    assert loaded(against)[0].against == ("fedcorr", "feddiv-paper")


def test_lists_of_one_and_of_none() -> None:
    assert loaded("against=fedcorr", source="quickstart")[0].against == ("fedcorr",)
    assert loaded("against=", source="quickstart")[0].against == ()
    assert load_experiment("quickstart", {"against": "fedcorr"}).against == ("fedcorr",)


def test_other_keys_that_hold_a_list() -> None:
    found, _ = loaded("data.classes=cat,dog", "data.shape=3,8,8", "data.mean=0.5,1", "data.std=2")
    assert found.data.classes == ("cat", "dog")
    assert (found.data.shape, found.data.mean, found.data.std) == ((3, 8, 8), (0.5, 1.0), (2.0,))
    mixed, _ = loaded("noise.name=mixed", "noise.kinds=none,symmetric")
    assert [kind["name"] for kind in mixed.noise.model_dump()["kinds"]] == ["none", "symmetric"]


def test_a_text_with_commas_stays_a_text() -> None:
    assert loaded("description=one, two")[0].description == "one, two"
