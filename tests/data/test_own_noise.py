"""`noise.name=package.module:Class`: the class that the docs show, and what is refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import feddiv
from feddiv.config.experiment import to_toml
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.data import Dataset
from feddiv.data.draw.draw import make_draw
from feddiv.data.noise.own_noise import import_noise, import_paths
from feddiv.data.partition import Iid

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "noise-and-partitions.md"
TIRED = ["noise.name=tired:Tired", "noise.levels=constant", "noise.level=0.4"]
TINY = ["rounds=2", "warmup.iterations=0", "data.images=120", "train.epochs=1", "against="]

WRONG = """
from feddiv.data.noise import Corruption, NoiseOptions, labels_of


class Nothing:
    pass


class Half(NoiseOptions):
    @property
    def injects(self):
        return True


class Short(Half):
    def corrupt(self, dataset, parts, rng, watcher=None):
        return Corruption(labels_of(dataset)[:-1], [0.0] * len(parts), ("short",) * len(parts))


def function():
    pass
"""


@pytest.fixture(autouse=True)
def tired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the page tells people to save."""
    (code,) = re.findall(r"```python\n(import numpy.*?class Tired.*?)```", DOCS.read_text(), re.S)
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "tired.py").write_text(code)
    (tmp_path / "modules" / "wrong_noise.py").write_text(WRONG)
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))  # for processes
    return tmp_path / "modules" / "tired.py"


def refused(*overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load_experiment("quickstart", overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_page_has_a_short_class(tired: Path) -> None:
    assert len(tired.read_text().strip().splitlines()) <= 20


def test_its_options_are_validated_and_written_out(tmp_path: Path) -> None:
    found = load_experiment("quickstart", [*TIRED, "noise.worst=0.5"])
    wanted = {"name": "tired:Tired", "levels": "constant", "level": 0.4, "worst": 0.5}
    assert wanted.items() <= found.noise.model_dump().items()
    (tmp_path / "config.toml").write_text(to_toml(found))
    assert load_experiment(tmp_path / "config.toml") == found
    assert refused(*TIRED, "noise.worst=2").startswith("noise.worst=2: ")
    assert refused(*TIRED, "noise.worse=1").startswith(
        "noise.worse is an unknown key (did you mean noise.worst?); allowed here: name, levels"
    )


def test_labels_at_the_end_of_a_clients_list_are_wrong(small_data: Dataset) -> None:
    tired = import_noise("tired:Tired")(name="tired:Tired", levels="constant", level=0.5)
    # A chance of 0 to .9 (not 1) along the list of twelve.
    rng, labels = np.random.default_rng(3), small_data.train.labels.numpy()
    part = np.arange(12)
    hit = part[rng.random(12) < np.linspace(0, 1, 12).clip(max=0.9)]
    labels = labels.copy()
    labels[hit] = rng.integers(3, size=len(hit))
    corruption = tired.corrupt(small_data, (part,), np.random.default_rng(3))
    assert corruption.given.tolist() == labels.tolist()
    assert corruption.kinds == ("tired:Tired",)


@pytest.mark.slow
def test_a_run_with_it_resumes_and_has_the_same_bits_with_workers(tmp_path: Path) -> None:
    runs = [
        feddiv.run("quickstart", [*TINY, *TIRED], out=tmp_path / f"w{workers}", workers=workers)
        for workers in (0, 2)
    ]
    assert runs[0].summary["model_hash"] == runs[1].summary["model_hash"]
    assert 0.2 < runs[0].summary["wrong"] < 0.5
    folder = runs[0].folder
    recipe = json.loads(str(np.load(folder / "draw.npz")["recipe"]))
    assert recipe["noise"]["name"] == "tired:Tired"
    (folder / "summary.json").unlink()  # as if it had been stopped before its end
    again = feddiv.resume(folder, workers=0)
    assert again.summary["model_hash"] == runs[0].summary["model_hash"]


def test_it_may_be_a_kind_of_mixed_noise() -> None:
    found = load_experiment("quickstart", ["noise.name=mixed", "noise.kinds=none,tired:Tired"])
    assert [kind["name"] for kind in found.noise.model_dump()["kinds"]] == ["none", "tired:Tired"]
    kinds = 'noise.kinds=["none", {name="tired:Tired", worse=1}]'
    assert "noise.kinds.1.worse is an unknown key" in refused("noise.name=mixed", kinds)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("nowhere.at.all:Noise", "module 'nowhere.at.all' cannot be imported"),
        ("tired:Awake", "'tired' has no 'Awake'"),
        ("tired:", "an import path reads 'package.module:Class'"),
        ("wrong_noise:Nothing", "Nothing is no noise: derive it from feddiv.data.noise.NoiseOpti"),
        ("wrong_noise:function", "is of type function and no class"),
        ("wrong_noise:Half", "Half leaves out corrupt(), which it has to define"),
    ],
)
def test_what_is_no_noise_is_refused(path: str, said: str) -> None:
    assert refused(f"noise.name={path}").startswith(f"noise.name={path!r}: {said}")
    message = refused("noise.name=mixed", f"noise.kinds={path}")
    assert message.startswith(f"noise.kinds={path!r}: {said}")


def test_labels_that_do_not_fit_the_data_are_refused(small_data: Dataset) -> None:
    short = import_noise("wrong_noise:Short")(name="wrong_noise:Short")
    with pytest.raises(UserError, match=r"=wrong_noise:Short: given has 11 entries, not 12"):
        make_draw(small_data, Iid(), short, 2, Streams(0))


def test_the_paths_of_a_section_are_found_without_importing_any() -> None:
    assert import_paths({"name": "evil:Noise", "rho": 1}) == ["evil:Noise"]
    kinds = ["none", "a:B", {"name": "c:D"}, {"name": "mixed", "kinds": ["e:F"]}]
    assert import_paths({"name": "mixed", "kinds": kinds}) == ["a:B", "c:D", "e:F"]
    assert import_paths({"name": "mixed", "kinds": "none,a:B"}) == ["none,a:B"]  # nobody allows it
    assert import_paths({"name": "symmetric"}) == import_paths(None) == import_paths(3) == []
