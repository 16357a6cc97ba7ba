"""The numbers of docs/results.md and of the README, from the result files that are committed.

    python -m docs.generate.results            write them anew: `make results`
    python -m docs.generate.results --check    only say whether they are what the files say

The pages are written by hand, but for what is between two comments:

    <!-- results: sweep benchmarks/sweeps/digits.toml --show seeds -->
    <!-- results: study table1 tiny benchmarks/results/tiny.jsonl -->
    <!-- results: rows benchmarks/results/features.jsonl --paper -->
    <!-- results: headline digits=benchmarks/sweeps/digits.toml -->
    <!-- end of results -->

A sweep shows its rows that were made with the options of today, a study of the paper's the same
beside the published numbers, `rows` shows a file as it is. A headline has a line for each setting
of its sweeps, with the seeds that all of its methods have been run on.
"""

import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean

from feddiv.core.errors import UserError
from feddiv.tables.agreement import agreement
from feddiv.tables.layouts import seeds_of
from feddiv.tables.plan import SweepPlan, plan_of
from feddiv.tables.rows import Row, read_rows
from feddiv.tables.studies import not_shown, scale_of, study_of, sweep_for
from feddiv.tables.summary_table import SummaryTable, summed_up
from feddiv.tables.sweep_file import read_sweep
from feddiv.tables.verb import written

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "docs" / "results.md", ROOT / "README.md")
HEADLINE = ("FedAvg", "FedAvg, warmed up", "FedDiv (paper)", "FedDiv (plus)", "perfect filter")
BLOCK = re.compile(
    r"^(?P<head><!-- results: (?P<what>.+?) -->\n)(?P<body>.*?)^(?P<end><!-- end of results -->)$",
    re.DOTALL | re.MULTILINE,
)
WIDTH = 100


def generated(text: str) -> str:
    """The page with every block made anew."""
    if text.count("<!-- results:") != len(BLOCK.findall(text)):
        raise UserError("results: a block has no end")
    return BLOCK.sub(lambda one: f"{one['head']}\n{_block(one['what'])}\n\n{one['end']}", text)


def _block(what: str) -> str:
    kind, *words = shlex.split(what)
    places = [word for word in words if not word.startswith("--")]
    show, paper = "all", "--paper" in words
    if "--show" in words:
        show = words[words.index("--show") + 1]
        places.remove(show)
    if kind not in KINDS:
        raise UserError(f"results: {what!r} is no block; there are {', '.join(KINDS)}")
    return KINDS[kind](places, show, paper)


def _of_rows(places: Sequence[str], show: str, paper: bool) -> str:
    (file,) = places
    return _table(read_rows(ROOT / file), show, paper)


def _of_sweep(places: Sequence[str], show: str, paper: bool) -> str:
    (file,) = places
    sweep = read_sweep(ROOT / file)
    assert sweep.rows is not None
    plan = plan_of(sweep, _known(sweep.rows))
    return _with_rest(plan, lambda rows: _table(rows, show, paper))


def _of_study(places: Sequence[str], show: str, paper: bool) -> str:
    name, scale, file = places
    study, size = study_of(name), scale_of(scale)
    plan = plan_of(sweep_for(study, size), _known(ROOT / file))

    def both(rows: Sequence[Row]) -> str:
        table = summed_up(rows)
        said = [*(f"{line}." for line in not_shown(study, size)), *agreement(table)]
        listed = "\n".join(_wrapped(f"- {line}", "  ") for line in said)
        shown = _shown(table, "best" if show == "all" else show, paper=True)
        return "\n\n".join(part for part in (shown, _made(rows), listed) if part)

    return f"**{study.title}**\n\n{_with_rest(plan, both)}"


def _headline(places: Sequence[str], show: str, paper: bool) -> str:
    """Last ten (best) in percent, a line for each setting that all methods have a seed of."""
    lines = [["data", "wrong", "seeds", *HEADLINE], ["---"] * (3 + len(HEADLINE))]
    for place in places:
        data, _, file = place.partition("=")
        sweep = read_sweep(ROOT / file)
        assert sweep.rows is not None
        rows = list(plan_of(sweep, _known(sweep.rows)).done.values())
        for setting in sweep.settings:
            found = {
                method: {r.seed: r for r in rows if (r.setting, r.method) == (setting, method)}
                for method in HEADLINE
            }
            if seeds := sorted(set.intersection(*map(set, found.values()))):
                shared = [[found[method][seed] for seed in seeds] for method in HEADLINE]
                said = [f"{data}, {setting}", f"{_mean(shared[0], 'wrong'):.0%}", seeds_of(seeds)]
                lines.append([*said, *_compared(shared)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _compared(shared: Sequence[Sequence[Row]]) -> list[str]:
    """A cell for each method, the best in bold; the last one knows the true labels."""
    last = [_mean(rows, "mean_last10_test_accuracy") for rows in shared]
    best = [_mean(rows, "best_test_accuracy") for rows in shared]
    highest = max(last[:-1])
    return [
        f"**{ten:.1%}** ({top:.1%})" if ten == highest else f"{ten:.1%} ({top:.1%})"
        for ten, top in zip(last, best, strict=True)
    ]


def _mean(rows: Sequence[Row], name: str) -> float:
    found = [row.number(name) for row in rows]
    return mean(each for each in found if each is not None)


KINDS = {"rows": _of_rows, "sweep": _of_sweep, "study": _of_study, "headline": _headline}


def _known(file: Path) -> list[Row]:
    return read_rows(file) if file.exists() else []


def _with_rest(plan: SweepPlan, shown: Callable[[Sequence[Row]], str]) -> str:
    """The table of what is finished, and how much is not."""
    rows, runs = list(plan.done.values()), len({job.made_by for job in plan.sweep.jobs})
    if not rows:
        return f"No run of it is finished yet: {runs} are to be made."
    if not plan.left:
        return shown(rows)
    methods = list(dict.fromkeys(job.method for job in plan.left))
    whose = ", ".join(methods) if len(methods) < len(plan.sweep.methods) else "of every method"
    rest = _wrapped(f"Not run yet: {len(plan.left)} of {runs} runs ({whose}).")
    return f"{shown(rows)}\n\n{rest}"


def _table(rows: Sequence[Row], show: str, paper: bool) -> str:
    return f"{_shown(summed_up(rows), show, paper=paper)}\n\n{_made(rows)}"


def _shown(table: SummaryTable, show: str, *, paper: bool) -> str:
    """The table, and its notes in one paragraph."""
    text, _, notes = written(table, "md", paper=paper, show=show).partition("\n\n")
    return f"{text}\n\n{_wrapped(' '.join(notes.splitlines()))}" if notes else text


def _made(rows: Sequence[Row]) -> str:
    """How many runs, on which seeds, and when."""
    dates = sorted({row.date for row in rows if row.date})
    when = " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "no date"
    count = "1 run" if len(rows) == 1 else f"{len(rows)} runs"
    seeds = sorted({row.seed for row in rows})
    return f"{count}, {'seed' if len(seeds) == 1 else 'seeds'} {seeds_of(seeds)}, {when}."


def _wrapped(text: str, indent: str = "") -> str:
    wide = textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
    return "\n".join(wide)


def main() -> None:
    """Write the pages, or check them."""
    for page in PAGES:
        before = page.read_text()
        after = generated(before)
        if "--check" not in sys.argv[1:]:
            page.write_text(after)
        elif after != before:
            raise SystemExit(f"{page.relative_to(ROOT)} is not what the files say")


if __name__ == "__main__":
    main()
