"""Semi-supervised training of one of two nets, as DivideMix does it (MixMatch, refined)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from pydantic import Field

from feddiv.core.options import Options
from feddiv.core.randomness import Streams
from feddiv.data import Samples
from feddiv.learning.train import Batch, Selection, batches, prior_loss


class MixMatchOptions(Options):
    """How targets are made and mixed."""

    temperature: float = Field(0.5, gt=0)  # T of the sharpening
    alpha: float = Field(4.0, gt=0)  # alpha_m: mixing ratios are Beta(alpha, alpha)


@dataclass(frozen=True)
class CoDivision:
    """A client's samples in two sets of rows, and how far each given label is trusted, [n]."""

    labelled: torch.Tensor  # X
    unlabelled: torch.Tensor  # U
    trust: torch.Tensor  # w


def sharpen(probabilities: torch.Tensor, temperature: float) -> torch.Tensor:
    """Distributions [n, C] with their larger entries enlarged: q^(1/T), scaled to sum to 1."""
    powers = probabilities ** (1 / temperature)
    return powers / powers.sum(dim=1, keepdim=True)


def refined(labels: torch.Tensor, trust: torch.Tensor, said: torch.Tensor) -> torch.Tensor:
    """Targets of labelled samples: the label as far as it is trusted, else what the net says."""
    given = torch.nn.functional.one_hot(labels, said.shape[1]).to(said.dtype)
    return torch.lerp(said, given, trust[:, None])


class MixMatch:
    """The objective of one net for one epoch; `other` is the net it is trained beside.

    Every batch of labelled samples is joined by the next batch of unlabelled ones, each in two
    augmented views. Targets come from nets in eval mode: in training mode they would move the
    batch-norm statistics, and depend on who is in the batch.
    """

    def __init__(
        self,
        options: MixMatchOptions,
        samples: Samples,
        division: CoDivision,
        other: torch.nn.Module,
        rng: Streams,
        *,
        batch: int,
        unlabelled_weight: float,
    ) -> None:
        self.options, self.samples, self.division, self.other = options, samples, division, other
        self.batch = batch
        self.unlabelled_weight = unlabelled_weight  # lambda_u
        self.views, self.ratio = rng.torch("views"), rng.numpy("mixup")
        self.partner = rng.torch("mixup")
        self._unlabelled = self._cycled(rng.torch("unlabelled"))

    def select(self, epoch: int) -> Selection:
        """What the epoch's batches are made of: the labelled samples."""
        return self.division.labelled, self.samples.given[self.division.labelled]

    def __call__(self, net: torch.nn.Module, batch: Batch) -> torch.Tensor:
        """L_X + lambda_u L_U + L_reg of one batch."""
        inputs, targets = self.targets(net, batch)
        labelled = 2 * len(batch.rows)

        ratio = float(self.ratio.beta(self.options.alpha, self.options.alpha))
        ratio = max(ratio, 1 - ratio)  # a mixed sample stays nearer to its own set
        partner = torch.randperm(len(inputs), generator=self.partner)
        logits = net(torch.lerp(inputs[partner], inputs, ratio))
        targets = torch.lerp(targets[partner], targets, ratio)

        loss = torch.nn.functional.cross_entropy(
            logits[:labelled], targets[:labelled]
        ) + prior_loss(logits)
        if len(logits) > labelled:
            said = logits[labelled:].softmax(dim=1)
            loss = loss + self.unlabelled_weight * torch.nn.functional.mse_loss(
                said, targets[labelled:]
            )
        return loss

    def targets(self, net: torch.nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of two views of the labelled and two of the unlabelled batch."""
        with torch.no_grad():
            labelled, temperature = 2 * len(batch.rows), self.options.temperature
            views = [batch.inputs, self._view(batch.rows)]
            if len(self.division.unlabelled):
                rows = next(self._unlabelled)
                views += [self._view(rows), self._view(rows)]
            inputs = torch.cat(views)
            net.eval()
            said = net(inputs).softmax(dim=1)
            net.train()

            trust = self.division.trust[batch.rows].to(said)
            target = sharpen(
                refined(batch.labels, trust, _mean_of_views(said[:labelled])), temperature
            )
            targets = [target, target]
            if len(inputs) > labelled:
                others = self.other.eval()(inputs[labelled:]).softmax(dim=1)
                guess = sharpen(_mean_of_views((said[labelled:] + others) / 2), temperature)
                targets += [guess, guess]
            return inputs, torch.cat(targets)

    def _view(self, rows: torch.Tensor) -> torch.Tensor:
        return self.samples.augmented(rows, self.views)

    def _cycled(self, order: torch.Generator) -> Iterator[torch.Tensor]:
        """Batches of unlabelled rows without end, each time round in a new order."""
        rows = self.division.unlabelled
        while True:
            for chosen in batches(len(rows), self.batch, order):
                yield rows[chosen]


def _mean_of_views(said: torch.Tensor) -> torch.Tensor:
    """Of [2 m, C], first view above second, to [m, C]."""
    return said.reshape(2, -1, said.shape[1]).mean(dim=0)
