"""Lines of benchmarks/results/audit.jsonl as Markdown and as a figure."""

from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from audit_measures import NEAR, RECALLS, errors_of_shares, held

Row = dict[str, Any]
TITLES = {
    "federated": "FedDiv, federated",
    "alone": "cleanlab, each client alone",
    "pooled": "cleanlab, all data pooled",
}
COLOURS = {"federated": "blue", "alone": "orange", "pooled": "grey"}
TUNING = range(20)  # seeds on which anything was chosen


def tables(rows: Sequence[Row]) -> str:
    """How well wrong labels are found, then how far quality and estimate can be believed."""
    return f"{_found(rows)}\n\n{_believed(rows)}"


def _found(rows: Sequence[Row]) -> str:
    text = [
        "| setting | wrong | audit | precision | recall | F1, by seed | F1 | AUROC, by seed "
        "| AUROC | AUROC within clients | average precision | wrong in the first 100 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (setting, audit), group in _grouped(rows).items():
        clients = [client for row in group for client in row["clients"]]
        wrong = sum(each["wrong"] for each in clients) / sum(each["labels"] for each in clients)
        cells = [
            _named(setting, group),
            f"{wrong:.0%}",
            TITLES[audit],
            _mean(group, "precision"),
            _mean(group, "recall"),
            " ".join(f"{row['f1']:.3f}" for row in group),
            f"**{_mean(group, 'f1')}**",
            " ".join(f"{row['auroc']:.3f}" for row in group),
            f"**{_mean(group, 'auroc')}**",
            _mean(group, "auroc_within_clients"),
            _mean(group, "average_precision"),
            _mean(group, "first_wrong", "{:.0%}"),
        ]
        text.append(f"| {' | '.join(cells)} |")
    return "\n".join(text)


def _believed(rows: Sequence[Row]) -> str:
    text = [
        "| setting | audit | Brier score | calibration error | clients within 5 points "
        "| mean error | largest error | truth in the interval |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for (setting, audit), group in _grouped(rows).items():
        clients = [client for row in group for client in row["clients"]]
        errors, inside = np.array(errors_of_shares(clients)), held(clients)
        cells = [
            f"`{setting}`",
            TITLES[audit],
            _mean(group, "brier"),
            _mean(group, "calibration_error"),
            f"{(errors <= NEAR).sum()} of {len(errors)}",
            f"{100 * errors.mean():.1f} points" if len(errors) else "–",
            f"{100 * errors.max():.1f} points" if len(errors) else "–",
            f"{sum(inside)} of {len(inside)}" if inside else "–",
        ]
        text.append(f"| {' | '.join(cells)} |")
    return "\n".join(text)


def trials(rows: Sequence[Row]) -> str:
    """Rivals after several numbers of epochs, on the seeds of tuning."""
    text = [
        "| setting | audit | epochs | seeds | F1 | AUROC | average precision | AUROC by margin |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    tried = [row for row in rows if row["seed"] in TUNING]
    for (setting, audit, epochs), group in sorted(_grouped(tried, "epochs").items()):
        margins = [row["by_margin"]["auroc"] for row in group if "by_margin" in row]
        cells = [
            f"`{setting}`",
            TITLES[audit],
            str(epochs or "–"),
            " ".join(str(row["seed"]) for row in group),
            *(_mean(group, key) for key in ("f1", "auroc", "average_precision")),
            f"{np.mean(margins):.3f}" if margins else "–",
        ]
        text.append(f"| {' | '.join(cells)} |")
    return "\n".join(text)


def figure(rows: Sequence[Row], file: Path) -> None:
    """Precision over recall in each setting, a curve for each audit; seeds are averaged."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import PercentFormatter

    from feddiv.reports.palette import COLOURS as PALETTE
    from feddiv.reports.plots import dress

    grouped = _grouped(rows)
    settings = list(dict.fromkeys(setting for setting, _ in grouped))
    drawn, panels = pyplot.subplots(
        1, len(settings), figsize=(2.9 * len(settings), 2.9), sharey=True, squeeze=False
    )
    for axes, setting in zip(panels[0], settings, strict=True):
        dress(axes, "wrong labels found", "of those listed, wrong" if axes is panels[0][0] else "")
        for audit, title in TITLES.items():
            group = grouped.get((setting, audit), [])
            if group:
                mean = np.mean([row["curve"] for row in group], axis=0)
                colour = PALETTE[COLOURS[audit]][0]
                axes.plot(RECALLS, mean, color=colour, label=title, linewidth=1.8)
        axes.set_title(setting, fontsize=10)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    lines, titles = panels[0][0].get_legend_handles_labels()
    drawn.legend(
        lines, titles, loc="lower center", ncols=len(TITLES), frameon=False, fontsize="small"
    )
    drawn.tight_layout(rect=(0, 0.09, 1, 1))
    drawn.savefig(file, dpi=110)
    pyplot.close(drawn)


def _grouped(rows: Sequence[Row], *more: str) -> dict[tuple[Any, ...], list[Row]]:
    """Lines of the same setting and audit, in the order in which they come, seeds ascending."""
    groups: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)

    for row in rows:
        groups[(row["setting"], row["audit"], *(row[key] for key in more))].append(row)
    return {key: sorted(group, key=itemgetter("seed")) for key, group in groups.items()}


def _named(setting: str, group: Sequence[Row]) -> str:
    return f"`{setting}`, seeds {' '.join(str(row['seed']) for row in group)}"


def _mean(group: Sequence[Row], key: str, form: str = "{:.3f}") -> str:
    known = [row[key] for row in group if row[key] is not None]
    return form.format(float(np.mean(known))) if known else "–"
