"""Gradients of a plain stack of linear layers, by hand.

At a batch of ten vectors autograd's bookkeeping costs as much as the arithmetic. What stands here
calls the kernels that autograd would call, with the same operands: the gradients are the same bit
for bit.
"""

from __future__ import annotations

import torch


class Stack:
    """Linear layers with ReLU between them; they share the memory of the net's parameters."""

    def __init__(self, layers: list[torch.nn.Linear]) -> None:
        self.layers = layers
        self._weights = [layer.weight.detach() for layer in layers]
        self._biases = [layer.bias.detach() for layer in layers]
        self._inputs: list[torch.Tensor] = []

    def parameters(self) -> list[torch.Tensor]:
        """In the order of the net's own."""
        return [each for layer in self.layers for each in (layer.weight, layer.bias)]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Logits [B, classes]; what every layer got is kept for `backward`."""
        self._inputs = []
        outputs = inputs.flatten(1)
        for weight, bias in zip(self._weights, self._biases, strict=True):
            if self._inputs:
                outputs.relu_()
            self._inputs.append(outputs)
            outputs = torch.addmm(bias, outputs, weight.t())
        return outputs

    def backward(self, gradient: torch.Tensor) -> None:
        """Add the gradients of the parameters to what they have, given that of the logits."""
        for at in reversed(range(len(self.layers))):
            layer, inputs = self.layers[at], self._inputs[at]
            add_gradient(layer.bias, gradient.sum(0))
            add_gradient(layer.weight, gradient.t().mm(inputs))
            if at:
                passed = gradient.mm(self._weights[at])
                gradient = torch.ops.aten.threshold_backward.default(passed, inputs, 0)


def add_gradient(parameter: torch.Tensor, gradient: torch.Tensor) -> None:
    """Add to what the parameter has, as autograd does."""
    if parameter.grad is None:
        parameter.grad = gradient
    else:
        parameter.grad += gradient


def stack_of(net: torch.nn.Module) -> Stack | None:
    """The net as a stack, where it is nothing else and nobody listens to what its parts do."""
    from feddiv.nets.net import Net  # it loads torch, and whoever reads settings imports this file

    layers = net.stacked() if isinstance(net, Net) else None
    if layers is None or "forward" in vars(net) or any(map(_is_hooked, net.modules())):
        return None
    return Stack(layers) if all(map(_is_plain, layers)) else None


def _is_plain(layer: torch.nn.Linear) -> bool:
    """Whether autograd would take the kernels above."""
    parameters = list(layer.parameters())
    return (
        type(layer) is torch.nn.Linear
        and len(parameters) == 2  # one without a bias multiplies otherwise
        and all(
            each.requires_grad
            and each.device.type == "cpu"
            and each.dtype == torch.float32
            and each.is_contiguous()
            and not each._backward_hooks
            for each in parameters
        )
    )


def _is_hooked(module: torch.nn.Module) -> bool:
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )
