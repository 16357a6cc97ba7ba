"""How far label audits can be believed: estimated and true shares of wrong labels, by client.

    python benchmarks/label_audit.py quickstart digits-noniid digits-clean --seeds 20 21 22

Runs each preset with each seed (FedDiv alone), audits the labels of all clients, and compares with
the truth of the draw, which the audit never sees.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import feddiv
from feddiv.core.arrays import Mask
from feddiv.data import Draw
from feddiv.learning.quality import Confusion

LEAST = 100  # labels of a client whose estimate is judged


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line of Markdown for each preset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[20, 21, 22])
    parser.add_argument("--set", nargs="*", default=[], help="further settings, KEY=VALUE")
    parser.add_argument("--workers", type=int, default=None)
    given = parser.parse_args(arguments)
    print(
        "| preset | clients | within 5 points | largest error | in the interval | its width | "
        "precision | recall | F1 | first 50 wrong |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for preset in given.presets:
        print(_line(preset, given.seeds, given.set, given.workers), flush=True)


def _line(preset: str, seeds: Sequence[int], settings: Sequence[str], workers: int | None) -> str:
    errors, inside, widths, first = [], [], [], []
    decisions = Confusion(0, 0, 0, 0)
    for seed in seeds:
        for audit, wrong in _audited(preset, [*settings, f"seed={seed}"], workers):
            decisions += Confusion.of(audit.is_label_issue, wrong)
            if wrong.sum() >= 50:
                first.append(wrong[audit.ranking[:50]].mean())
            estimate = audit.estimate
            if len(audit) < LEAST or estimate is None:
                continue
            low, high = estimate.low or 0.0, 1.0 if estimate.high is None else estimate.high
            errors.append(abs(estimate.share - wrong.mean()))
            inside.append(low <= wrong.mean() <= high)
            widths.append(high - low)
    measures = {key: "-" if value is None else f"{value:.3f}" for key, value in
                decisions.measures().items()}  # fmt: skip
    cells = (
        preset,
        str(len(errors)),
        f"{np.mean(np.array(errors) <= 0.05):.1%}",
        f"{100 * max(errors):.1f}",
        f"{np.mean(inside):.1%}",
        f"{100 * np.mean(widths):.1f}",
        measures["precision"],
        measures["recall"],
        measures["f1"],
        f"{np.mean(first):.1%}" if first else "-",
    )
    return f"| {' | '.join(cells)} |"


def _audited(
    preset: str, settings: Sequence[str], workers: int | None
) -> list[tuple["feddiv.audits.label_audit.LabelAudit", Mask]]:
    with tempfile.TemporaryDirectory() as place:
        run = feddiv.run(
            preset, ["against=[]", *settings], out=Path(place) / "run", workers=workers
        )
        draw = Draw.load(run.folder / "draw.npz")
        assert draw.truth is not None
        return [
            (audit, draw.given[part] != draw.truth[part])
            for audit, part in zip(feddiv.audit(run), draw.parts, strict=True)
        ]


if __name__ == "__main__":
    main()
