"""Passes without gradients, in fixed chunks so that the same samples give the same bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.arrays import Module, Tensor
from feddiv.core.errors import Diverged
from feddiv.data import Samples

CHUNK = 250
Forward = Callable[[Mapping[str, Module], Tensor], Tensor]


def predict(
    net: torch.nn.Module | Mapping[str, torch.nn.Module],
    samples: Samples,
    rows: torch.Tensor | None = None,
    forward: Forward | None = None,
) -> torch.Tensor:
    """Logits [n, C] in eval mode on the deterministic transform, of all samples or of `rows`.

    Several nets need a `forward` that says how they answer together.
    """
    nets = {"net": net} if isinstance(net, torch.nn.Module) else net
    for each in nets.values():
        each.eval()
    if rows is None:
        rows = torch.arange(len(samples))
    answer = forward or (lambda nets, inputs: nets["net"](inputs))
    with torch.no_grad():
        chunks = torch.split(rows, CHUNK)
        return torch.cat([answer(nets, samples.plain(chunk)) for chunk in chunks])


def predict_array(
    net: torch.nn.Module, samples: Samples, rows: torch.Tensor | None = None
) -> npt.NDArray[np.float64]:
    """`predict` as a float64 array, for scores and filters."""
    return predict(net, samples, rows).double().cpu().numpy()


def predict_global(net: torch.nn.Module, samples: Samples) -> npt.NDArray[np.float64]:
    """`predict_array` of a received model, which must still make sense."""
    logits = predict_array(net, samples)
    if not np.isfinite(logits).all():
        raise Diverged("the global model's outputs are not finite: try a smaller train.lr")
    return logits


def predict_local(net: torch.nn.Module, samples: Samples) -> npt.NDArray[np.float64]:
    """`predict_array` of a net in training, always finite: exploded weights will be refused."""
    return np.nan_to_num(predict_array(net, samples), posinf=1e30, neginf=-1e30)
