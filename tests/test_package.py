"""What `make package` builds, and what it is worth where nothing else of feddiv is installed."""

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from feddiv.presets import presets

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="links to packages")]

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, and the wheel that is built from it."""
    return build(tmp_path_factory.mktemp("dist"))


def build(out: Path, *kinds: str) -> Path:
    command = [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", out, ROOT]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def only(folder: Path, pattern: str) -> Path:
    (file,) = folder.glob(pattern)
    return file


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def files(folder: str) -> set[str]:
    """What lies below a folder of the tree, but for what Python leaves there."""
    found = (path for path in (ROOT / folder).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts}


def test_the_wheel_holds_the_package_with_its_data(built: Path) -> None:
    names = {name for name in contents(only(built, "*.whl")) if ".dist-info/" not in name}
    assert {f"src/{name}" for name in names} == files("src")
    wanted = {
        "presets/own.toml",
        "deploy/templates/run.sh",
        "flower/app/pyproject.toml",
        "py.typed",
    }
    assert {f"feddiv/{name}" for name in wanted} <= names


def test_the_sdist_holds_tests_docs_and_examples(built: Path) -> None:
    with tarfile.open(only(built, "*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for folder in ("src", "tests", "docs", "examples"):
        assert files(folder) <= names
    assert {"LICENSE", "README.md", "Makefile", "constraints.txt", "pyproject.toml"} <= names


def test_the_sdist_builds_to_the_wheel_of_the_tree(built: Path, tmp_path: Path) -> None:
    from_tree = contents(only(build(tmp_path, "--wheel"), "*.whl"))
    assert contents(only(built, "*.whl")) == from_tree


def requirements(wheel: Path) -> list[str]:
    metadata = next(text for name, text in contents(wheel).items() if name.endswith("/METADATA"))
    return Parser().parsestr(metadata.decode()).get_all("Requires-Dist") or []


def needed(lines: Iterable[str], extras: Iterable[str] = ()) -> Iterator[Requirement]:
    """The requirements that hold here, with these extras."""
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement


def dependencies(wheel: Path) -> set[str]:
    """All that an install of the wheel without extras brings along, by name."""
    found: set[tuple[str, frozenset[str]]] = set()
    waiting = list(needed(requirements(wheel)))
    while waiting:
        requirement = waiting.pop()
        entry = (requirement.name, frozenset(requirement.extras))
        if entry not in found:
            found.add(entry)
            lines = distribution(requirement.name).requires or []
            waiting += needed(lines, requirement.extras)
    return {name for name, _ in found}


@dataclass(frozen=True)
class Environment:
    """A virtual environment, and an empty folder to work in."""

    path: Path
    work: Path

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A program of the environment, which knows nothing of the source tree."""
        variables = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
        return subprocess.run(
            [self.path / "bin" / program, *words],
            cwd=self.work, env=variables, capture_output=True, text=True,
        )  # fmt: skip

    def python(self, code: str) -> str:
        done = self.run("python", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def link(self, names: Iterable[str]) -> None:
        """Take over packages of the environment that runs the tests, and nothing beside them."""
        site = Path(self.python("import sysconfig; print(sysconfig.get_path('purelib'))"))
        for name in names:
            package = distribution(name)
            tops = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
            for top in tops:
                if not (site / top).exists():
                    (site / top).symlink_to(Path(str(package.locate_file(top))).resolve())


def install(environment: Environment, *arguments: str | Path) -> None:
    pip = [sys.executable, "-m", "pip", "--python", environment.path / "bin" / "python"]
    done = subprocess.run([*pip, "install", "--quiet", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", params=["linked", pytest.param("whole", marks=pytest.mark.full)])
def environment(
    request: pytest.FixtureRequest, built: Path, tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    """The wheel without extras: with links to what it requires, or all of it installed by pip."""
    made = Environment(tmp_path_factory.mktemp("venv"), tmp_path_factory.mktemp("work"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", made.path], check=True)
    wheel = only(built, "*.whl")
    if request.param == "whole":
        install(made, "--constraint", ROOT / "constraints.txt", wheel)
    else:
        made.link(dependencies(wheel))
        install(made, "--no-deps", "--no-index", wheel)
    return made


def test_the_package_comes_from_the_wheel_and_extras_are_not_there(
    environment: Environment,
) -> None:
    home = environment.python("import feddiv; print(feddiv.__file__)")
    assert Path(home).is_relative_to(environment.path)
    absent = "from importlib.util import find_spec as f; print(*map(f, {}))"
    assert environment.python(absent.format(["flwr", "ray", "datasets", "pyarrow", "pytest"])) == (
        "None None None None None"
    )


def test_the_quickstart_runs(environment: Environment) -> None:
    settings = ["rounds=2", "--out", "first"]
    done = environment.run("feddiv", "run", "quickstart", *settings)
    assert done.returncode == 0, done.stderr
    assert "digits, 10 clients, 2 rounds, seed 0, 45.0% of the given labels wrong" in done.stdout
    assert {" feddiv", " fedavg"} <= {line[:7] for line in done.stdout.splitlines()}
    assert (environment.work / "first" / "model.safetensors").is_file()
    assert (environment.work / "first" / "picture.png").is_file()
    code = "import feddiv, sys; print(feddiv.load('first').classes)"
    assert environment.python(code) == str(tuple("0123456789"))


def test_list_names_what_came_with_the_wheel(environment: Environment) -> None:
    done = environment.run("feddiv", "list")
    assert done.returncode == 0, done.stderr
    assert all(f"  {name} " in done.stdout for name in presets())


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["deploy", "init", "hospitals"], "flower"),
        (["run", "federation.name=flower_simulation"], "flower-simulation"),
        (["run", "data.source=huggingface", "data.path=saved"], "vision"),
        (["run", "data.source=table", "data.path=mine.parquet"], "parquet"),
    ],
)
def test_a_missing_extra_is_one_line(
    environment: Environment, words: list[str], extra: str
) -> None:
    (environment.work / "saved").mkdir(exist_ok=True)
    (environment.work / "mine.parquet").write_bytes(b"PAR1")
    before = set(environment.work.rglob("*"))
    done = environment.run("feddiv", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("feddiv: error: ")
    assert done.stderr.count("\n") == 1
    assert f"pip install 'feddiv[{extra}]'" in done.stderr
    assert set(environment.work.rglob("*")) == before
