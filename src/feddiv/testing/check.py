"""The check as a whole: from what a class says of itself to runs under hard conditions."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from feddiv.core.import_path import NotFound, import_from, path_of
from feddiv.methods.contract import Method
from feddiv.methods.own import why_no_method
from feddiv.runs.run import on_this_machine
from feddiv.testing.declarations import check_classes, check_kinds, check_lines, check_variants
from feddiv.testing.experts import check_experts
from feddiv.testing.findings import Findings, NotConformant
from feddiv.testing.lost_replies import check_lost_replies
from feddiv.testing.odd_clients import write_trial
from feddiv.testing.same_bits import check_same_bits
from feddiv.testing.trial import check_newcomers, check_what_came, watched_run


def check_method(method: type[Method[Any, Any]], options: Mapping[str, Any] | None = None) -> None:
    """Try a method out, and raise `NotConformant` with one line on each thing that is wrong.

    It runs on made-up data in a temporary folder: six clients, of whom one has a single sample, one
    has two, one has a single class and one has wrong labels only. Once that goes well, it runs in
    workers, is stopped and resumed, loses replies, and meets labels that experts vouch for.
    `options` are those of the method, as in
    {"variant": "hard", "share": 0.5}.

    Example:
        >>> check_method(MyMethod)  # doctest: +SKIP
    """
    findings = Findings()
    name = getattr(method, "__qualname__", repr(method))
    if reason := why_no_method(method):
        raise NotConformant(name, [reason])
    path = path_of(method)
    if reason := _why_not_there(path, method):
        raise NotConformant(name, [reason])
    with TemporaryDirectory(prefix="feddiv-") as folder:
        _check(method, path, dict(options or {}), Path(folder), findings)
    if findings:
        raise NotConformant(name, findings.lines()) from findings.cause


def _why_not_there(path: str, method: object) -> str:
    """Runs, resumes and sites know a method by its import path."""
    try:
        found = import_from(path)
    except NotFound as problem:
        return f"cannot be imported, as it has to be at the top level of a module: {problem}"
    return "" if found is method else f"{path} is another class: a method has to be at its path"


def _check(
    method: type[Method[Any, Any]],
    path: str,
    options: Mapping[str, Any],
    folder: Path,
    findings: Findings,
) -> None:
    check_lines(method, findings)
    check_classes(method, findings)
    chosen = {"method.name": path, **{f"method.{key}": value for key, value in options.items()}}
    settings = {**write_trial(folder / "data"), **chosen}
    experiment = check_variants(method, settings, findings)
    if experiment is None:
        return
    check_kinds(experiment.build_method(), findings)
    before = findings.lines()
    run, watch = watched_run(experiment, folder / "straight", findings, on_this_machine(0))
    if run is None:
        return
    check_what_came(watch, findings)
    check_newcomers(watch.method, watch.state, findings)
    if findings.lines() != before:
        return  # harder conditions would only show the same mistakes in other words
    check_same_bits(settings, run, folder / "again", findings)
    check_lost_replies(settings, folder / "lost", findings)
    check_experts(settings, folder / "experts", findings)
