"""A method of one's own on the command line, and a line for each way to get it wrong."""

import json

import pytest

from feddiv.config.reading import load_experiment

OWN = "examples.own_method.small_loss:SmallLoss"

SMALL = ["rounds=2", "warmup.iterations=1", "data.images=200", "against=[]"]
BROKEN = '''
from examples.own_method.small_loss import SmallLoss
from feddiv import methods as fd


class Silent(SmallLoss):
    """Declares a number that it does not send."""

    def kinds(self, facts):
        return {"train": fd.Kind({"loss": fd.Declared(())}, message=("most",))}


class OtherKind(SmallLoss):
    def kinds(self, facts):
        return {"learn": fd.Kind()}


class Unfinished(fd.Method[None, None]):
    def weights(self, state):
        return {}


class NoDiary(SmallLoss):
    def visit(self, client, memory, received, rng):
        return fd.Visit(super().visit(client, memory, received, rng).reply, None, None)


class ArrayDiary(SmallLoss):
    def visit(self, client, memory, received, rng):
        visit = super().visit(client, memory, received, rng)
        return fd.Visit(visit.reply, None, {"losses": client.samples.given.numpy()})


class NumberedDiary(SmallLoss):
    def visit(self, client, memory, received, rng):
        return fd.Visit(super().visit(client, memory, received, rng).reply, None, {3: 4})


class NoMethod:
    pass


class NoOptions(SmallLoss):
    Options = NoMethod


thing = 3
'''


@pytest.fixture
def broken(tmp_path, monkeypatch):
    folder = tmp_path.parent / f"{tmp_path.name}-modules"  # not in the folder that is looked at
    folder.mkdir()
    (folder / "broken_methods.py").write_text(BROKEN)
    (folder / "broken_module.py").write_text("import no_such_thing\n")
    monkeypatch.syspath_prepend(folder)


@pytest.mark.slow
def test_run_against_others_resume_and_predict(command, tiny, tmp_path):
    rivals = f"against=['fedavg', '{OWN}-half']"
    outcome = command("run", *tiny, f"method.name={OWN}", rivals, "--out", "mine")
    assert outcome.code == 0, outcome.err
    rows = [line.split()[0] for line in outcome.out.splitlines() if line.endswith(" s ")]
    assert rows == ["SmallLoss", "fedavg", "SmallLoss-half"]
    assert "SmallLoss-half  round 3 of 3" in outcome.err
    assert load_experiment(tmp_path / "mine" / "config.toml").method.name == OWN
    summary = json.loads((tmp_path / "mine" / "summary.json").read_text())
    assert (summary["method"], summary["variant"]) == (OWN, "default")
    assert summary["filter"]["f1"] is not None

    before = (tmp_path / "mine" / "model.safetensors").read_bytes()
    (tmp_path / "mine" / "summary.json").unlink()  # it goes on from the last checkpoint
    assert command("resume", "mine").code == 0
    assert (tmp_path / "mine" / "model.safetensors").read_bytes() == before

    assert command("run", *tiny, f"method.name={OWN}", "against=[]").code == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("quickstart-examples.own_method.small_loss.SmallLoss-seed0-")


def test_show_and_list(command):
    shown = command("show", "quickstart", f"method.name={OWN}-half").out
    assert f'name = "{OWN}"\nvariant = "half"\nmost = 0.5\nstart = 0.2\n' in shown
    lines = command("list", "methods", OWN).out.splitlines()
    names = [line.split("  ")[0] for line in lines if not line.startswith(" ")]
    assert names == [OWN, f"{OWN}-half"]
    assert "Han et al., NeurIPS 2018" in " ".join(command("list", "methods", OWN).out.split())
    assert "package.module:Class is one of your own" in command("list", "methods").out
    only = command("list", "methods", "fedavg-mixup").out
    assert only.startswith("fedavg ")
    assert len([line for line in only.splitlines() if line.startswith("fed")]) == 3


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            ["method.name=no_such.module:Mine"],
            "method.name='no_such.module:Mine': module 'no_such.module' cannot be imported "
            "(ModuleNotFoundError: No module named 'no_such'); install it or put its folder on "
            "PYTHONPATH",
        ),
        (
            ["method.name=broken_module:Mine"],
            "module 'broken_module' cannot be imported (ModuleNotFoundError: No module named "
            "'no_such_thing')",
        ),
        (["method.name=broken_methods:Mine"], "'broken_methods' has no 'Mine'"),
        (["method.name=broken_methods:"], "an import path reads 'package.module:Class'"),
        (["method.name=broken_methods:thing"], "is of type int and no class"),
        (
            ["method.name=broken_methods:NoMethod"],
            "NoMethod is no method: derive it from feddiv.methods.Method",
        ),
        (
            ["method.name=broken_methods:Unfinished"],
            "Unfinished leaves out begin(), kinds(), merge(), plan(), visit(), which it has to "
            "define",
        ),
        (["method.name=broken_methods:NoOptions"], "NoOptions.Options is no class derived from"),
        (
            ["against=['broken_methods:NoMethod']"],
            "against='broken_methods:NoMethod': NoMethod is no method",
        ),
        (
            [f"method.name={OWN}", "method.share=0.5"],
            "method.share is an unknown key; allowed here: name, variant, most, start",
        ),
        (
            [f"method.name={OWN}", "method.variant=third"],
            f"method.variant: 'third' is unknown; {OWN} has default, half",
        ),
        (
            [*SMALL, "method.name=broken_methods:Silent", "checkpoint.seconds=0"],
            "method.name=broken_methods:Silent: replies to 'train' are not what kinds() declares; "
            "client 4: kept was not declared (and 4 more)",
        ),
        (
            [*SMALL, "method.name=broken_methods:OtherKind"],
            "method.name=broken_methods:OtherKind: plans an exchange of kind 'train', and kinds() "
            "declares learn",
        ),
        (
            [*SMALL, "method.name=broken_methods:NoDiary", "checkpoint.seconds=0"],
            "method.name=broken_methods:NoDiary: the diary of a visit for 'train' is a NoneType, "
            "not a dict; leave it out for none",
        ),
        (
            [*SMALL, "method.name=broken_methods:ArrayDiary"],
            "method.name=broken_methods:ArrayDiary: the diary of a visit for 'train' cannot be "
            "written as JSON: 'losses' is a ndarray (TypeError: Object of type ndarray is not JSON "
            "serializable); give plain numbers, texts, lists and dicts of them",
        ),
        (
            [*SMALL, "method.name=broken_methods:NumberedDiary", "--workers", "0"],
            "the diary of a visit for 'train' has the key 3, which is no text",
        ),
    ],
)
@pytest.mark.usefixtures("broken")
def test_a_wrong_method_is_one_line_and_leaves_nothing(refused, settings, said):
    assert said in refused("run", "quickstart", *settings)


def test_a_list_that_there_is_not(refused):
    said = "kind 'methds' is unknown (did you mean 'methods'?); there are methods, datasets, "
    assert said in refused("list", "methds")
    assert "kind 'zzz' is unknown; there are methods, " in refused("list", "zzz")


def test_only_methods_are_listed_by_name(refused):
    assert "list models cnn: only methods can be listed by name" in refused("list", "models", "cnn")
    assert "'fedsgd' is unknown" in refused("list", "methods", "fedsgd")
