"""METHOD-VARIANT, the name of a variant: short for two keys, and nothing of its own."""

from pathlib import Path

import pytest

from feddiv.config.experiment import Experiment, to_toml
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.methods.registry import METHODS, full_name, names_of, split_name


def options(*overrides: str, source: Path | None = None) -> Experiment:
    return load_experiment(source, overrides)


def refused(*overrides: str, source: Path | None = None) -> str:
    with pytest.raises(UserError) as caught:
        options(*overrides, source=source)
    return str(caught.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.toml"
    path.write_text('[method]\nname = "feddiv"\nvariant = "paper"\nrelabel.confidence = 0.6\n')
    return path


def test_the_names_there_are() -> None:
    assert split_name("feddiv-no-relabel-no-pcs") == ("feddiv", "no-relabel-no-pcs")
    assert split_name("feddiv") == ("feddiv", None)
    assert full_name("feddiv", "plus") == "feddiv"
    assert full_name("feddiv", "paper") == "feddiv-paper"
    assert full_name("fedprox", "default") == "fedprox"
    assert names_of("fedavg") == ("fedavg", "fedavg-mixup", "fedavg-warm")
    for name, method in METHODS.items():
        assert "-" not in name  # or a name could be read in two ways
        assert all(variant.summary for variant in method.variants.values())


@pytest.mark.parametrize(
    "name", ["feddiv:paper", "feddiv-best", "feddiv-", "fedmagic", "fedmagic-x"]
)
def test_a_name_that_there_is_not_says_where_it_was_read(name: str) -> None:
    assert refused(f"method.name={name}").startswith(f"method.name: {name!r} is ")
    assert refused(f'against=["{name}"]').startswith(f"against: {name!r} is ")


def test_a_variant_has_a_name_of_its_own(tmp_path: Path) -> None:
    for name, method in METHODS.items():
        for variant in method.variants:
            both = options(
                f"method.name={name}", f"method.variant={variant}", "warmup.iterations=1"
            )
            one = options(f"method.name={name}-{variant}", "warmup.iterations=1")
            assert to_toml(one) == to_toml(both)
    plain = options("method.name=feddiv-plus")
    assert plain == options("method.variant=plus") == options("method.name=feddiv") == options()
    path = tmp_path / "short.toml"
    path.write_text('[method]\nname = "feddiv-paper"\nrelabel.confidence = 0.6\n')
    found = options(source=path)
    assert found == options("method.variant=paper", "method.relabel.confidence=0.6")
    whole = options('method={name="feddiv-paper", relabel={confidence=0.6}}')
    assert whole == found


def test_the_name_of_a_variant_is_a_choice_like_its_two_halves(file: Path) -> None:
    assert options("method.name=feddiv-paper", source=file) == options(source=file)
    released = options("method.variant=release", source=file)
    assert options("method.name=feddiv-release", source=file) == released
    # The file's choice is below; what is typed wins over it, whichever of the keys it is.
    file.write_text('[method]\nname = "feddiv-paper"\n')
    assert options("method.variant=release", source=file) == options("method.name=feddiv-release")


def test_a_name_and_a_variant_may_agree_but_not_contradict(file: Path) -> None:
    assert options("method.name=feddiv-paper", "method.variant=paper").method.variant == "paper"
    message = refused("method.variant=release", "method.name=feddiv-paper")
    assert "method.name='feddiv-paper' and method.variant='release'" in message
    file.write_text('[method]\nname = "feddiv-paper"\nvariant = "release"\n')
    assert "contradict each other" in refused(source=file)
