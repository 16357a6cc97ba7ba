"""The work that every engine is given, and a peer's way to the images and to the journal.

It is pfl-research's published setting, in fedavg.toml for feddiv and peers alike.
"""

import argparse
import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from cnn import build
from torch import Tensor, nn

SETTING = tomllib.loads((Path(__file__).parent / "fedavg.toml").read_text())
CLIENTS: int = SETTING["clients"]["count"]
VISITS = round(CLIENTS * SETTING["clients"]["fraction"])  # clients a round
IMAGES = 50_000 // CLIENTS  # of a client
BATCH: int = SETTING["train"]["batch"]
STEPS = IMAGES // BATCH  # of SGD in a visit, which is one epoch
RATE: float = SETTING["train"]["lr"]
EVERY: int = SETTING["evaluation"]["every"]  # rounds from one central evaluation to the next
CHUNK = 250  # images at a time when evaluating, as feddiv does; larger ones leave the cache
PROCESSES = 2

assert SETTING["train"]["epochs"] == 1, "the peers train one epoch"
assert SETTING["train"]["momentum"] == 0, "the peers train without momentum"
assert IMAGES % BATCH == 0, "the last batch of a client would be smaller"


@dataclass(frozen=True)
class Job:
    """One run of a peer: how long, with which seed, from which images, and where it reports."""

    rounds: int
    seed: int
    images: Path
    journal: Path

    nodes: int

    @classmethod
    def from_arguments(cls) -> "Job":
        """Read the command line of a peer."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--rounds", type=int, required=True)
        parser.add_argument("--seed", type=int, required=True)
        parser.add_argument("--images", type=Path, required=True)
        parser.add_argument("--journal", type=Path, required=True)
        parser.add_argument("--nodes", type=int, default=CLIENTS, help="Flower's SuperNodes")
        return cls(**vars(parser.parse_args()))

    def write(self, number: int, visits: int, steps: int, accuracy: float | None) -> None:
        """Say that a round is over; the driver takes the time when the line appears."""
        line = {"round": number, "visits": visits, "steps": steps, "test_accuracy": accuracy}
        with self.journal.open("a") as journal:
            journal.write(json.dumps(line) + "\n")


@dataclass(frozen=True, eq=False)
class Images:
    """Normalised images [N,3,32,32] in channels_last, feddiv's layout too, and their labels [N]."""

    inputs: Tensor
    labels: Tensor

    def part(self, number: int, size: int) -> "Images":
        """The images number * size and following, as a view."""
        rows = slice(number * size, (number + 1) * size)
        return Images(self.inputs[rows], self.labels[rows])


def training_images(file: Path, seed: int) -> Images:
    """All training images in a random order, so that `part(client, IMAGES)` is an IID client."""
    images = _read(file, "train")
    assert len(images.labels) == CLIENTS * IMAGES
    order = torch.randperm(CLIENTS * IMAGES, generator=torch.Generator().manual_seed(seed))
    return Images(images.inputs[order], images.labels[order])


def test_images(file: Path) -> Images:
    """The 10,000 images of the central evaluation."""
    return _read(file, "test")


def _read(file: Path, split: str) -> Images:
    with np.load(file) as stored:
        pixels = torch.from_numpy(stored[f"{split}_inputs"]).to(torch.float32)  # [N,32,32,3]
        labels = torch.from_numpy(stored[f"{split}_labels"])
        mean, std = torch.from_numpy(stored["mean"]), torch.from_numpy(stored["std"])
    return Images(pixels.sub_(mean * 255).mul_(1 / (std * 255)).permute(0, 3, 1, 2), labels)


def make_net() -> nn.Module:
    """The net in the memory layout that feddiv uses."""
    net = build((3, 32, 32), 10)
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return net


def sgd(parameters: Iterable[nn.Parameter], lr: float = RATE) -> torch.optim.Optimizer:
    """Plain SGD in torch's fused implementation, as feddiv has it."""
    return torch.optim.SGD(parameters, lr=lr, fused=True)


@torch.no_grad()
def hits(net: nn.Module, images: Images) -> int:
    """How many images the net is right about."""
    net.eval()
    chunks = zip(images.inputs.split(CHUNK), images.labels.split(CHUNK), strict=True)
    return sum(int((net(x).argmax(dim=1) == y).sum()) for x, y in chunks)
