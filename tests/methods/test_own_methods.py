"""Methods of somebody's own, named by their import path: names, options, variants, models."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import feddiv
from feddiv.config.experiment import Experiment, rival_titles, title, to_toml
from feddiv.core.errors import UserError
from feddiv.methods.fedprox import FedProx
from feddiv.methods.registry import file_name, full_name, names_of, short_names, split_name

OWN = "examples.own_method.small_loss:SmallLoss"
TINY = {
    "rounds": 2,
    "clients.count": 2,
    "data.images": 60,
    "model.name": "mlp",
    "train.epochs": 1,
    "noise.name": "none",
}


def options(*settings: str, source: Any = None) -> Experiment:
    return feddiv.load_experiment(source, settings)


class Pulled(FedProx):
    """A method that changes one thing about one that comes with feddiv."""


def test_a_variant_is_named_behind_the_class() -> None:
    assert split_name(OWN) == (OWN, None)
    assert split_name(f"{OWN}-half") == (OWN, "half")
    assert full_name(OWN, "default") == OWN
    assert names_of(OWN) == (OWN, f"{OWN}-half")
    assert options(f"method.name={OWN}-half") == options(
        f"method.name={OWN}", "method.variant=half"
    )
    with pytest.raises(UserError, match=f"'{OWN}-most' is unknown.* of {OWN} there are {OWN}, "):
        split_name(f"{OWN}-most")


def test_options_are_those_of_its_class() -> None:
    found = options(f"method.name={OWN}-half", "method.start=0.5").method
    assert found.model_dump() == {"name": OWN, "variant": "half", "most": 0.5, "start": 0.5}
    with pytest.raises(UserError, match=r"method\.most=1\.5: Input should be less than 1"):
        options(f"method.name={OWN}", "method.most=1.5")
    with pytest.raises(UserError, match=r"method\.top is an unknown key; allowed here: name, var"):
        options(f"method.name={OWN}", "method.top=1")


def test_another_method_drops_them_and_files_keep_them(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(to_toml(options(f"method.name={OWN}", "method.most=0.25")))
    assert options(source=file) == options(f"method.name={OWN}", "method.most=0.25")
    assert options("method.name=fedavg", source=file) == options("method.name=fedavg")
    file.write_text(f'base = "quickstart"\n[method]\nname = "{OWN}"\nvariant = "half"\n')
    assert options(source=file).method == options(f"method.name={OWN}-half").method


def test_one_that_is_derived_from_ours_has_the_same_options() -> None:
    found = options("method.name=tests.methods.test_own_methods:Pulled", "method.mu=0.1")
    assert found.method.model_dump()["mu"] == 0.1
    assert type(found.build_method()) is Pulled


def test_tables_have_the_class_unless_two_are_called_so() -> None:
    other = "elsewhere.small_loss:SmallLoss"
    assert short_names([OWN, "feddiv-paper"]) == {OWN: "SmallLoss", "feddiv-paper": "feddiv-paper"}
    assert short_names([OWN, other]) == {OWN: OWN, other: other}
    found = options(f"method.name={OWN}", "method.most=0.5", f'against=["fedavg", "{OWN}-half"]')
    assert title(found) == "SmallLoss*"
    assert rival_titles(found, found.against)[f"{OWN}-half"] == "SmallLoss-half"


@pytest.mark.slow
def test_folders_have_no_colon_in_their_names(tmp_path: Path) -> None:
    assert file_name(f"{OWN}-half") == "examples.own_method.small_loss.SmallLoss-half"
    assert file_name("feddiv-no-relabel-no-pcs") == "feddiv-no-relabel-no-pcs"
    settings = TINY | {"method.name": "fedavg", "against": [f"{OWN}-half"]}
    run = feddiv.run({}, settings, out=tmp_path / "run", workers=0)
    rival = run.against[f"{OWN}-half"]
    assert rival.folder == tmp_path / "run" / "against" / file_name(f"{OWN}-half")
    assert (rival.summary["method"], rival.summary["variant"]) == (OWN, "half")
    again = feddiv.resume(tmp_path / "run")
    assert again.against[f"{OWN}-half"].summary == rival.summary


def test_one_name_twice_is_refused_also_by_another_path() -> None:
    with pytest.raises(UserError, match=f"against: '{OWN}-default' is named twice"):
        options(f'against=["{OWN}", "{OWN}-default"]')


@pytest.mark.slow
def test_what_it_trained_can_be_used_while_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "flat.py").write_text(
        "from examples.own_method.small_loss import SmallLoss\n"
        "class Opposite(SmallLoss):\n"
        "    def predict(self, nets, inputs):\n"
        "        return -nets['net'](inputs)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    run = feddiv.run({}, TINY | {"method.name": "flat:Opposite"}, out=tmp_path / "run", workers=0)
    images = np.random.default_rng(0).integers(0, 256, (4, 8, 8, 1), dtype=np.uint8)
    model = feddiv.load(run.folder)
    opposite = model.predict_proba(images)
    monkeypatch.setattr(sys.modules["flat"].Opposite, "predict", feddiv.methods.Method.predict)
    straight = feddiv.load(run.folder).predict_proba(images)
    assert opposite.argmax(axis=1).tolist() == straight.argmin(axis=1).tolist()
    monkeypatch.delitem(sys.modules, "flat")
    (tmp_path / "flat.py").unlink()
    with pytest.raises(UserError, match=r"model\.safetensors: .* module 'flat' cannot be imported"):
        feddiv.load(run.folder)
