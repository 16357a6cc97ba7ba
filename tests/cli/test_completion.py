"""What Tab offers, asked as shells ask."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from feddiv.data import NOISES
from feddiv.data.published.benchmarks import CATALOGUE
from feddiv.methods.registry import METHODS
from feddiv.presets import presets

# Words as bash cuts them, at spaces and at "=", and then what it offers, one on each line.
BASH = """
set -eu
PATH={bin}:$PATH
eval "$(feddiv --show-completion)"
complete -p feddiv > /dev/null
offers() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _feddiv_completion feddiv; }}
offers {words}
printf '%s\\n' ${{COMPREPLY[@]+"${{COMPREPLY[@]}}"}}
"""


def bash(*words: str) -> list[str]:
    script = BASH.format(bin=shlex.quote(str(Path(sys.executable).parent)), words=shlex.join(words))
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture
def offered(command, monkeypatch):
    """What is offered behind words that the shell does not cut, as in zsh and fish."""

    def ask(line: str) -> list[str]:
        monkeypatch.setenv("_FEDDIV_COMPLETE", "complete_fish")
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", line)
        outcome = command()
        assert (outcome.code, outcome.err) == (0, "")
        return [entry.split("\t")[0] for entry in outcome.out.splitlines() if entry]

    return ask


@pytest.mark.slow
def test_bash_completes_presets_keys_and_names():
    assert bash("feddiv", "run", "quick") == ["quickstart"]
    assert bash("feddiv", "run", "quickstart", "method.name", "=", "fedavg") == [
        "fedavg",
        "fedavg-mixup",
        "fedavg-warm",
    ]
    assert set(METHODS) <= set(bash("feddiv", "run", "method.name", "="))
    cut = ["quickstart", "rounds", "=", "40", "clients.f"]
    assert bash("feddiv", "run", *cut) == ["clients.fraction=0.5"]


def test_the_first_word_is_a_preset_a_key_or_a_file(offered):
    assert offered("feddiv run ") == list(presets())
    assert offered("feddiv run digits-") == ["digits-clean", "digits-noniid"]
    assert offered("feddiv run rou") == ["rounds=33"]
    assert offered("feddiv run mine.to") == []  # the shell offers files then


def test_a_key_comes_with_the_value_it_has(offered):
    names = [f"noise.name={name}" for name in NOISES]
    assert offered("feddiv show digits-clean noise.") == names  # none has no other keys
    assert offered("feddiv show quickstart noise.tau") == ["noise.tau=0.5"]
    assert offered("feddiv show quickstart compi") == ["compile=false"]
    assert offered("feddiv show quickstart data.pa") == ["data.path="]
    assert offered("feddiv show quickstart desc") == ["description="]  # it takes quotes
    assert offered("feddiv show quickstart method.name=fedprox method.m") == ["method.mu=1.0"]


def test_names_behind_a_key(offered):
    assert offered("feddiv run partition.name=iid") == [
        "partition.name=iid",
        "partition.name=iid_stratified",
    ]
    assert offered("feddiv data describe model.name=c") == ["model.name=cnn"]
    names = ("fedavg", "fedavg-mixup", "fedavg-warm")
    assert offered("feddiv run against=fedav") == [f"against={name}" for name in names]
    assert offered("feddiv run rounds=3") == []


def test_data_sets_and_commands(offered):
    assert offered("feddiv data get ") == list(CATALOGUE)
    assert offered("feddiv data check cifar-") == ["cifar-n"]
    assert offered("feddiv pre") == ["predict"]


def test_words_that_are_wrong_are_left_to_the_command(offered):
    assert offered("feddiv run nonsense rou") == []
    assert offered("feddiv run quickstart rounds=many tra") == []


def test_install_writes_what_the_shell_reads(tmp_path):
    script = f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; "
    script += "feddiv --install-completion; true"  # not the last one: bash stays its parent
    home = {**os.environ, "HOME": str(tmp_path)}
    subprocess.run(["bash", "-c", script], env=home, check=True, capture_output=True)
    written = (tmp_path / ".bash_completions" / "feddiv.sh").read_text()
    assert "_feddiv_completion" in written
    assert "feddiv.sh" in (tmp_path / ".bashrc").read_text()
