"""Nets by name, or by the import path of somebody's own factory."""

import torch
from torch import Tensor, nn

from feddiv.errors import UserError
from feddiv.nets.cnn import CNN
from feddiv.nets.foreign import ForeignNet, import_net, in_one_line, with_features_and_head
from feddiv.nets.mlp import MLP
from feddiv.nets.net import Net, NetSpec, use_channels_last
from feddiv.nets.resnet import RESNETS
from feddiv.options import Options

__all__ = ["NETS", "ForeignNet", "ModelOptions", "Net", "NetSpec", "build_net", "find_net"]

NETS: dict[str, NetSpec] = {spec.name: spec for spec in (MLP, CNN, *RESNETS)}


class ModelOptions(Options):
    """Which net to train: a name of NETS, or "package.module:factory"."""

    name: str = "cnn"


def find_net(name: str) -> NetSpec:
    """The net of this name or import path."""
    if ":" in name:
        return import_net(name)
    if name not in NETS:
        raise UserError(
            f"model.name={name!r} is no net; there are {', '.join(NETS)}, "
            "and import paths 'package.module:factory'"
        )
    return NETS[name]


def build_net(
    options: ModelOptions, input_shape: tuple[int, ...], classes: int
) -> Net | ForeignNet:
    """A new net in training mode, with `features(x)` [B, d] and `head`, checked by a dry run.

    Initial weights come from torch's global generator: seed it first (`Streams.seeded`).
    `input_shape` is (channels, height, width) or (features,), without the batch.

    Example:
        >>> net = build_net(ModelOptions(name="mlp"), input_shape=(384,), classes=10)
        >>> net(torch.zeros(5, 384)).shape
        torch.Size([5, 10])
    """
    net = find_net(options.name).build(input_shape, classes).eval()
    samples = torch.zeros(2, *input_shape)
    check_output(options.name, net, samples, classes)
    if not any(parameter.requires_grad for parameter in net.parameters()):
        raise UserError(f"model.name={options.name!r} has no parameters that could be trained")
    use_channels_last(net)
    return with_features_and_head(options.name, net, samples, classes).train()


def check_output(name: str, net: nn.Module, samples: Tensor, classes: int) -> None:
    """Refuse a net (in eval mode) that does not turn these samples into one logit per class."""
    try:
        with torch.no_grad():
            logits = net(samples)
    except Exception as problem:
        raise UserError(
            f"model.name={name!r} fails on samples of shape {tuple(samples.shape[1:])}: "
            f"{in_one_line(problem)}"
        ) from problem
    if not isinstance(logits, Tensor):
        raise UserError(
            f"model.name={name!r} gives a {type(logits).__name__}, not a tensor of logits "
            f"for {classes} classes"
        )
    if logits.dim() != 2 or len(logits) != len(samples):
        raise UserError(
            f"model.name={name!r} gives shape {tuple(logits.shape)} for {len(samples)} samples; "
            f"wanted ({len(samples)}, {classes}): one logit for each of {classes} classes"
        )
    if logits.shape[1] != classes:
        raise UserError(
            f"model.name={name!r} gives {logits.shape[1]} outputs a sample, "
            f"but the data have {classes} classes"
        )
    if not logits.isfinite().all():
        raise UserError(f"model.name={name!r} gives logits that are not finite for blank samples")
