"""SGD with momentum, by torch's fused kernel and without what surrounds it.

At a batch of ten vectors a step is a fifth of a millisecond. `torch.optim.SGD` spends a quarter of
that on hooks, on finding out again what its parameters are, and once, for a second, on loading the
compiler. The arithmetic here is its own, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import torch


class Optimiser(Protocol):
    """What training asks of an optimiser; torch's have it too."""

    def zero_grad(self) -> None:
        """Forget the gradients."""

    def step(self) -> object:
        """Move the parameters."""


class Sgd:
    """For parameters that stay the same tensors; those without a gradient stay as they are."""

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        *,
        lr: float,
        momentum: float,
        weight_decay: float,
    ) -> None:
        from torch.optim.sgd import sgd  # the functional form of torch.optim.SGD

        self.parameters = list(parameters)
        self.lr, self.momentum, self.weight_decay = lr, momentum, weight_decay
        self._update = sgd
        self._moments: list[torch.Tensor | None] = [None] * len(self.parameters)
        self._detached = [parameter.detach() for parameter in self.parameters]
        # The moments again, once every parameter has one, on one device and of one type.
        self._begun: list[torch.Tensor] = []

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self) -> None:
        """Move against the gradients; a parameter's momentum begins with its first gradient."""
        if self._begun and self._moved_at_once():
            return
        gradients = {
            place: parameter.grad
            for place, parameter in enumerate(self.parameters)
            if parameter.grad is not None
        }
        with torch.no_grad():
            # The kernel takes parameters that all have a momentum, or none of them.
            for begun in (True, False):
                places = [at for at in gradients if (self._moments[at] is not None) == begun]
                if places:
                    self._move(places, [gradients[at] for at in places])

    def _moved_at_once(self) -> bool:
        """The kernel itself, where every parameter has a gradient, not its first."""
        found = (parameter.grad for parameter in self.parameters)
        gradients = [gradient for gradient in found if gradient is not None]
        if len(gradients) < len(self._begun) or any(each.is_sparse for each in gradients):
            return False
        torch._fused_sgd_(
            self._detached,
            gradients,
            self._begun,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            lr=self.lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )
        return True

    def _move(self, places: list[int], gradients: list[torch.Tensor]) -> None:
        moments = [self._moments[at] for at in places]
        self._update(
            [self.parameters[at] for at in places],
            gradients,
            moments,
            fused=True,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            lr=self.lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
        for at, moment in zip(places, moments, strict=True):
            self._moments[at] = moment
        begun = [moment for moment in self._moments if moment is not None]
        alike = len({(each.device, each.dtype) for each in begun}) == 1
        self._begun = begun if alike and len(begun) == len(self.parameters) else []
