"""JointOpt at every client: the net and its labels learn together (Tanaka et al., CVPR 2018).

Symbols of the paper: theta = `net`, Y = the client's soft `labels` [n, C], s = softmax output,
alpha = `prior_weight`, beta = `entropy_weight`. Q = `window` is how many outputs of a sample make
its label. The paper's second step, training anew on the final labels, would need a budget of its
own and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field

from feddiv.core.randomness import Streams
from feddiv.data import Samples
from feddiv.learning.train import Batch, Selection, entropy_loss, prior_loss, train
from feddiv.methods.averaging import Averaging
from feddiv.methods.common import trained_reply
from feddiv.methods.contract import (
    Assessment,
    Client,
    Diary,
    Message,
    MethodOptions,
    Moment,
    Payload,
    Variant,
    Visit,
)

Array32 = npt.NDArray[np.float32]


class JointOptOptions(MethodOptions):
    """JointOpt's options."""

    name: str = "jointopt"
    prior_weight: float = Field(1.2, ge=0)  # of KL(uniform || mean prediction of a batch)
    entropy_weight: float = Field(0.8, ge=0)  # of the entropy of predictions
    window: int = Field(10, ge=1, le=1000)  # epochs whose outputs make a label
    labels_after: float = Field(0.1, ge=0, lt=1)  # share of the rounds until labels move
    soft: bool = True  # else the likeliest class alone


@dataclass(frozen=True)
class JointOptMemory:
    """What a client keeps between visits: its labels, and the outputs that will make the next."""

    labels: Array32  # Y [n, C]
    outputs: Array32  # [n, Q, C], a ring for each sample
    pushed: npt.NDArray[np.int64]  # [n], how many outputs were ever put in


class JointOpt(Averaging[JointOptMemory]):
    """Train on labels that follow the net's own outputs."""

    name = "jointopt"
    summary = "labels that clients replace by the mean of the net's latest outputs"
    paper = "Tanaka et al., CVPR 2018"
    Options = JointOptOptions
    options: JointOptOptions
    shares_of_rounds = ("labels_after",)
    variants: ClassVar[Mapping[str, Variant]] = {
        "default": Variant("soft labels"),
        "hard": Variant("JointOpt whose labels are one class each", {"soft": False}),
    }

    payload_names = ("labels_move",)

    def payload(self, moment: Moment) -> Payload:
        """Whether labels move in this round."""
        fixed = min(self.budget.part(self.options.labels_after), self.budget.rounds - 1)
        started = moment.turn >= fixed  # in the last round at the latest
        return {"labels_move": np.array(float(started))}

    def visit(
        self, client: Client, memory: JointOptMemory | None, received: Message, rng: Streams
    ) -> Visit[JointOptMemory]:
        """E epochs of SGD on labels that move after each of them."""
        net, moving = client.net(received.weights["net"]), bool(received.payload["labels_move"])
        memory = memory or self._blank(client)
        learning = JointLearning(self.options, memory, moving=moving, samples=client.samples)
        train(net, client.samples, learning.select, learning, self.training, rng)
        memory = learning.memory()
        diary = _diary(client, memory)
        return Visit(trained_reply(client, net, received), memory, diary)

    def assess(
        self, client: Client, memory: JointOptMemory | None, received: Message
    ) -> Assessment:
        """p(clean) is what the client's label leaves to the class that was given."""
        memory = memory or self._blank(client)
        opinion = super().assess(client, memory, received)
        kept = memory.labels[np.arange(len(client)), client.samples.given.numpy()]
        return replace(opinion, p_clean=kept.astype(np.float64))

    def _blank(self, client: Client) -> JointOptMemory:
        """A client's memory before its first visit: the given labels, and no outputs."""
        size, classes = len(client), client.classes
        return JointOptMemory(
            labels=torch.nn.functional.one_hot(client.samples.given, classes).float().numpy(),
            outputs=np.zeros((size, self.options.window, classes), np.float32),
            pushed=np.zeros(size, np.int64),
        )


class JointLearning:
    """One visit: what each epoch trains on, the loss of a batch, and the outputs it leaves."""

    def __init__(
        self,
        options: JointOptOptions,
        memory: JointOptMemory,
        *,
        moving: bool,
        samples: Samples | None = None,
    ) -> None:
        self.options, self.samples, self.moving = options, samples, moving
        self.labels = torch.tensor(memory.labels)  # copies: a visit may be refused
        self.outputs = torch.tensor(memory.outputs)
        self.pushed = torch.tensor(memory.pushed)

    def select(self, epoch: int) -> Selection:
        """Every sample, with its label as the epochs before have left it."""
        if epoch:
            self._move_labels()
        return torch.arange(len(self.labels)), self.labels

    def __call__(self, net: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """L = CE on soft labels + alpha KL(uniform || mean output) + beta H."""
        logits: torch.Tensor = net(batch.inputs)
        self._push(batch.rows, logits.detach().softmax(dim=1).cpu())
        loss = torch.nn.functional.cross_entropy(logits, batch.labels)
        loss = loss + self.options.prior_weight * prior_loss(logits)
        return loss + self.options.entropy_weight * entropy_loss(logits)

    def _push(self, rows: torch.Tensor, outputs: torch.Tensor) -> None:
        """Put outputs [B, C] in the place of the oldest."""
        self.outputs[rows, self.pushed[rows] % self.options.window] = outputs
        self.pushed[rows] += 1

    def _move_labels(self) -> None:
        """Y <- the mean of the outputs that are there, for samples that have any."""
        if not self.moving:
            return
        filled = self.pushed.clamp_max(self.options.window)
        # Empty places hold zeros; counting them would leave labels that do not sum to 1.
        mean = self.outputs.sum(dim=1) / filled.clamp_min(1)[:, None]
        if not self.options.soft:
            mean = torch.nn.functional.one_hot(mean.argmax(dim=1), mean.shape[1]).float()
        self.labels = torch.where(filled[:, None] > 0, mean, self.labels)
        if self.samples is not None:  # what an expert said does not move
            _, self.labels = self.samples.honoured(torch.arange(len(self.labels)), self.labels)

    def memory(self) -> JointOptMemory:
        """What stays after the last epoch."""
        self._move_labels()
        return JointOptMemory(self.labels.numpy(), self.outputs.numpy(), self.pushed.numpy())


def _diary(client: Client, memory: JointOptMemory) -> Diary:
    """How many labels have changed and, where the truth is known, how many are right now."""
    likeliest = memory.labels.argmax(axis=1)
    diary: Diary = {"relabelled": int((likeliest != client.samples.given.numpy()).sum())}
    if client.samples.truth is not None:
        diary["labels_right"] = int((likeliest == client.samples.truth.numpy()).sum())
    return diary
