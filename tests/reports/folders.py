"""Folders of runs as `feddiv run` writes them, without training: from a draw and made-up scores."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from feddiv.config.experiment import Experiment, to_toml
from feddiv.config.reading import load_experiment
from feddiv.data import Draw
from feddiv.learning.quality import Confusion, confusion_cells
from feddiv.methods.contract import Assessment, Reply
from feddiv.methods.feddiv.diary import score_histogram
from feddiv.methods.feddiv.filter import NoiseFilter
from feddiv.runs.journal import Seen, client_line, round_line
from feddiv.runs.summary import Closing, summarise

MIXTURE = [-4.0, 4.0, 2.0, 2.0, 0.6, 0.4]


@dataclass(frozen=True)
class Shape:
    """How large a run is."""

    clients: int = 6
    samples: int = 30  # of each client
    classes: int = 4
    rounds: int = 8
    visits: int = 3  # in a round
    truth: bool = True
    noisy: bool = True  # whether any label is wrong
    names: tuple[str, ...] = ()  # of classes
    sites: tuple[str, ...] = ()


def made_run(
    folder: Path,
    shape: Shape = Shape(),  # it is frozen
    *settings: str,
    ended: bool = True,
    opinion: bool = True,
) -> Path:
    """A run that never was; the first third of its clients is clean, half of it warm-up."""
    rng = np.random.default_rng(7)
    asked = (f"rounds={shape.rounds}", "warmup.iterations=1", f"clients.count={shape.clients}")
    wanted = (*asked, "clients.fraction=1.0", "against=[]", *settings)
    experiment = load_experiment("quickstart", wanted)
    draw = made_draw(shape, rng)
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(to_toml(experiment), "utf-8")
    (folder / "environment.json").write_text(json.dumps({"python": "3.11", "packages": {}}))
    draw.save(folder / "draw.npz")
    labels = [_Labels.of(draw, client, shape, rng) for client in range(shape.clients)]
    rounds = _journals(folder, labels, shape, rng, opinion=opinion)
    if ended:
        _end(folder, experiment, draw, labels, rounds, shape, opinion=opinion)
    return folder


def made_draw(shape: Shape, rng: np.random.Generator) -> Draw:
    """As many samples for each client; from the second third on ever more are wrong."""
    count = shape.clients * shape.samples
    truth = rng.integers(shape.classes, size=count)
    levels = np.maximum(0, np.linspace(-0.4, 0.8, shape.clients)) if shape.clients > 1 else [0.4]
    levels = np.array(levels) * shape.noisy
    wrong = rng.random(count) < np.repeat(levels, shape.samples)
    given = np.where(wrong, (truth + rng.integers(1, shape.classes, size=count)), truth)
    return Draw(
        dataset="digits",
        parts=tuple(np.split(np.arange(count), shape.clients)),
        given=given % shape.classes,
        truth=truth if shape.truth else None,
        levels=np.array(levels) if shape.truth else None,
        fingerprint="",
        names=shape.sites,
    )


@dataclass(frozen=True)
class _Labels:
    """A client's labels, and what a filter would make of them: one in twenty it takes wrongly."""

    given: np.ndarray
    truth: np.ndarray | None
    scores: np.ndarray
    p_clean: np.ndarray

    @classmethod
    def of(cls, draw: Draw, client: int, shape: Shape, rng: np.random.Generator) -> "_Labels":
        part = draw.parts[client]
        truth = None if draw.truth is None else draw.truth[part]
        doubtful = rng.random(len(part)) < 0.3 if truth is None else draw.given[part] != truth
        doubtful = doubtful ^ (rng.random(len(part)) < 0.05)
        scores = np.clip(np.where(doubtful, 4.0, -4.0) + rng.normal(0, 1.4, len(part)), -8, 8)
        return cls(draw.given[part], truth, scores, 1 / (1 + np.exp(scores)))

    def diary(self, classes: int) -> dict[str, Any]:
        flagged = self.p_clean < 0.5
        wrong = None if self.truth is None else self.given != self.truth
        diary: dict[str, Any] = {
            "noise_level": float(flagged.mean()),
            "clean": int((~flagged).sum()),
            "noisy": int(flagged.sum()),
            "relabelled": int(flagged.sum()) // 2,
            "reselected": [int((~flagged).sum())],
            "scores": score_histogram(self.scores, wrong, NoiseFilter(classes=classes)),
        }
        if self.truth is None or wrong is None:
            return diary
        return diary | {
            "true_noise_level": float(wrong.mean()),
            "filter": Confusion.of(flagged, wrong).as_dict(),
            "memorised": int(wrong.sum()) // 5,
            "wrong": int(wrong.sum()),
            "labels_filtered": confusion_cells(self.truth[~flagged], self.given[~flagged]),
            "labels_reselected": confusion_cells(self.truth[~flagged], self.given[~flagged]),
        }


def _journals(
    folder: Path,
    labels: list[_Labels],
    shape: Shape,
    rng: np.random.Generator,
    *,
    opinion: bool,
) -> list[dict[str, Any]]:
    diaries = [each.diary(shape.classes) if opinion else {} for each in labels]
    rounds: list[dict[str, Any]] = []
    with (folder / "clients.jsonl").open("w") as visits:
        for turn in range(1, shape.rounds + 1):
            head = {"turn": turn, "round": turn, "stage": "warmup" if turn == 1 else "train"}
            chosen = rng.choice(shape.clients, min(shape.visits, shape.clients), replace=False)
            seen = []
            for client in map(int, chosen):
                diary = diaries[client] if turn > 1 or shape.rounds == 1 else {}
                reply = Reply(client, shape.samples, metrics={"divergence": 2.0 / turn})
                visits.write(json.dumps({**head, **client_line("train", reply, diary)}) + "\n")
                seen.append(Seen(reply, diary))
            accuracy = 0.9 - 0.6 / turn
            rounds.append(
                {
                    **head,
                    "test_accuracy": accuracy,
                    "balanced_accuracy": accuracy,
                    "test_loss": 1.0,
                    "per_class_accuracy": [accuracy] * shape.classes,
                    **round_line(seen),
                    "mixture": MIXTURE if opinion and turn > 1 else None,
                    "missing": [],
                    "bytes_up": 1000,
                    "bytes_down": 2000,
                    "seconds": 0.5,
                    "evaluation_seconds": 0.1,
                }
            )
    (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rounds))
    return rounds


def _end(
    folder: Path,
    experiment: Experiment,
    draw: Draw,
    labels: list[_Labels],
    rounds: list[dict[str, Any]],
    shape: Shape,
    *,
    opinion: bool,
) -> None:
    opinions = [
        (
            client,
            Assessment(
                each.given, each.p_clean if opinion else None, each.scores if opinion else None
            ),
        )
        for client, each in enumerate(labels)
    ]
    closing = Closing.of(draw, opinions)
    names = shape.names or tuple(f"class {place}" for place in range(shape.classes))
    summary = summarise(experiment, names, draw, rounds, closing, 12.0, "ab" * 32)
    np.savez_compressed(folder / "assessment.npz", **closing.arrays)
    (folder / "summary.json").write_text(json.dumps(summary))
