"""The one local-training loop, and the objective that FedDiv trains with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from pydantic import Field

from feddiv.core.arrays import Module, Tensor
from feddiv.core.options import Options
from feddiv.core.randomness import Streams
from feddiv.data import Samples
from feddiv.learning.logit_gradients import LEAST, cross_entropy_gradient, prior_gradient
from feddiv.learning.sgd import Optimiser, Sgd
from feddiv.nets.stack import Stack, stack_of


class TrainOptions(Options):
    """SGD at a client; a fresh optimiser for every visit."""

    epochs: int = Field(5, ge=1, le=10_000)  # of one visit
    batch: int = Field(10, ge=2, le=1_000_000)  # samples in a batch
    lr: float = Field(0.03, gt=0)  # learning rate, the same in all rounds
    momentum: float = Field(0.5, ge=0, lt=1)  # of SGD
    weight_decay: float = Field(0.0, ge=0)  # L2 penalty on the weights


@dataclass(frozen=True)
class Batch:
    """Augmented inputs, the labels to learn, and which of the client's samples these are."""

    inputs: torch.Tensor
    labels: torch.Tensor
    rows: torch.Tensor


Objective = Callable[[Module, Batch], Tensor]  # the loss of a batch
# Rows [m] of the client, and the label each trains with [m].
Selection = tuple[Tensor, Tensor]


@runtime_checkable
class ByHand(Protocol):
    """An objective that needs no autograd for a plain stack and labels that are class numbers."""

    def add_gradients(self, stack: Stack, batch: Batch) -> None:
        """Add its gradients to those of the stack's parameters: the bits that autograd adds."""


def train(
    net: torch.nn.Module,
    samples: Samples,
    select: Callable[[int], Selection],
    objective: Objective,
    options: TrainOptions,
    rng: Streams,
    optimiser: Optimiser | None = None,
) -> int:
    """Train in place for `options.epochs` epochs; returns the number of SGD steps.

    `select(epoch)` says which samples the epoch uses; an epoch with fewer than two is skipped.
    Samples whose labels an expert vouches for are always used, with these labels. A visit that
    trains in several calls hands them one optimiser, and each its own part of `rng`.
    """
    optimiser = optimiser or sgd(net, options)
    by_hand = objective if isinstance(objective, ByHand) and _speaks_for(objective) else None
    stack = stack_of(net) if by_hand else None
    order, augment = rng.torch("order"), rng.torch("augment")
    steps = 0
    with rng.seeded("net"):  # a net may draw too: dropout
        for epoch in range(options.epochs):
            rows, labels = samples.honoured(*select(epoch))
            if len(rows) < 2:
                continue
            net.train()
            hard = _class_numbers(labels)
            chosen = torch.randperm(len(rows), generator=order)
            sizes = batch_sizes(len(rows), options.batch)
            parts = torch.split(rows[chosen], sizes)
            learnt = torch.split(labels[chosen].to(samples.device), sizes)
            for part, targets in zip(parts, learnt, strict=True):
                inputs = samples.augmented(part, augment)
                optimiser.zero_grad()
                batch = Batch(inputs, targets, part)
                if by_hand and stack and hard:
                    by_hand.add_gradients(stack, batch)
                else:
                    objective(net, batch).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
                steps += 1
    return steps


def _speaks_for(objective: ByHand) -> bool:
    """Whether its gradients are those of its loss: a subclass may have put another in its place."""
    family = type(objective).__mro__
    return "add_gradients" in vars(next(each for each in family if "__call__" in vars(each)))


def _class_numbers(labels: torch.Tensor) -> bool:
    """Whether labels are one class each, neither soft nor left out (torch ignores a negative)."""
    return labels.dim() == 1 and not labels.is_floating_point() and int(labels.min()) >= 0


def sgd(net: torch.nn.Module, options: TrainOptions) -> Optimiser:
    """The optimiser of one visit; its momentum is never sent."""
    return Sgd(
        net.parameters(),
        lr=options.lr,
        momentum=options.momentum,
        weight_decay=options.weight_decay,
    )


def batches(count: int, size: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """A random order in batches."""
    return torch.split(torch.randperm(count, generator=generator), batch_sizes(count, size))


def batch_sizes(count: int, size: int) -> list[int]:
    """Of the batches of an epoch; a trailing batch of one joins the batch before it."""
    whole, rest = divmod(count, size)
    if rest == 1 and whole:
        return [size] * (whole - 1) + [size + 1]
    return [size] * whole + [rest] * bool(rest)


def everything(samples: Samples) -> Callable[[int], Selection]:
    """Every sample with its given label, in every epoch."""
    rows = torch.arange(len(samples))
    return lambda epoch: (rows, samples.given)


class CrossEntropy:
    """Mean cross-entropy on the labels of the batch."""

    def __call__(self, net: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """The loss."""
        return torch.nn.functional.cross_entropy(net(batch.inputs), batch.labels)

    def add_gradients(self, stack: Stack, batch: Batch) -> None:
        """Add its gradients."""
        log_p = stack.forward(batch.inputs).log_softmax(1)
        stack.backward(cross_entropy_gradient(log_p, batch.labels))


cross_entropy = CrossEntropy()


class MixUp:
    """Mean cross-entropy on mixed pairs, plus eta times the prior regulariser.

    One ratio per batch, lambda ~ Beta(1, 1), partners by a permutation of the batch.
    `raw_forward` also passes the unmixed batch through the net in train mode, for nothing but
    its effect on batch-norm statistics, as the released code does.
    """

    def __init__(self, rng: Streams, *, eta: float = 0.0, raw_forward: bool = False) -> None:
        self.eta = eta
        self.raw_forward = raw_forward
        self.ratio = rng.numpy("mixup")
        self.partner = rng.torch("mixup")

    def __call__(self, net: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """L_mix + eta L_reg (Eq. 15)."""
        ratio, partner = self._drawn(batch)
        if self.raw_forward:
            with torch.no_grad():
                net(batch.inputs)
        logits = net(torch.lerp(batch.inputs[partner], batch.inputs, ratio))
        loss = mixup_loss(logits, batch.labels, batch.labels[partner], ratio)
        return loss + self.eta * prior_loss(logits) if self.eta else loss

    def add_gradients(self, stack: Stack, batch: Batch) -> None:
        """Add its gradients; a stack has no statistics that a raw forward pass would move."""
        ratio, partner = self._drawn(batch)
        inputs, labels = batch.inputs, batch.labels
        logits = stack.forward(torch.lerp(inputs.index_select(0, partner), inputs, ratio))
        log_p = logits.log_softmax(1)
        gradient = cross_entropy_gradient(log_p, labels.index_select(0, partner), 1 - ratio)
        if self.eta:  # as autograd adds them: the last term of the loss comes first
            gradient = prior_gradient(logits, self.eta) + gradient
        stack.backward(gradient + cross_entropy_gradient(log_p, labels, ratio))

    def _drawn(self, batch: Batch) -> tuple[float, torch.Tensor]:
        """The ratio, and the partners [B]."""
        ratio = float(self.ratio.beta(1.0, 1.0))
        return ratio, torch.randperm(len(batch.labels), generator=self.partner)


def mixup_loss(
    logits: torch.Tensor, labels: torch.Tensor, partners: torch.Tensor, ratio: float
) -> torch.Tensor:
    """L_mix (Eq. 13): mean cross-entropy against ratio * labels + (1 - ratio) * partners."""
    first = torch.nn.functional.cross_entropy(logits, labels)
    return ratio * first + (1 - ratio) * torch.nn.functional.cross_entropy(logits, partners)


def prior_loss(logits: torch.Tensor) -> torch.Tensor:
    """L_reg (Eq. 14): KL(uniform || mean softmax of the batch)."""
    classes = logits.shape[1]
    mean = logits.softmax(dim=1).mean(dim=0)
    return -(mean.clamp_min(LEAST).log().mean() + float(np.log(classes)))


def entropy_loss(logits: torch.Tensor) -> torch.Tensor:
    """Mean entropy of the batch's softmax outputs."""
    log_softmax = logits.log_softmax(dim=1)
    return -(log_softmax.exp() * log_softmax).sum(dim=1).mean()
