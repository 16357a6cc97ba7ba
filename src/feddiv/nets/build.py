"""From the name of a net to a new net that fits the data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch

from feddiv.core.errors import UserError, in_one_line
from feddiv.core.import_path import import_from, is_import_path
from feddiv.core.weights import read_weights
from feddiv.nets.foreign import ForeignNet, import_net, with_features_and_head
from feddiv.nets.net import Build, Net, NetBuild, use_channels_last
from feddiv.nets.net_options import FOR_SOME, NETS, ModelOptions, check_net_name
from feddiv.nets.resnet import stem_of
from feddiv.nets.weights import start_from, unwrapped


def find_net(name: str) -> NetBuild:
    """The net of this name or import path."""
    check_net_name(name)
    if is_import_path(name):
        return import_net(name)
    net: NetBuild = import_from(NETS[name].path)
    return net


def find_build(options: ModelOptions) -> Build:
    """How the net of these options is built; one that it would not look at is a mistake."""
    spec = find_net(options.name)
    for key in FOR_SOME:
        value = getattr(options, key)
        if value is not None and key not in spec.takes:
            others = ", ".join(name for name in NETS if key in find_net(name).takes)
            raise UserError(
                f"model.{key}={value}: model.name={options.name!r} has no use for it; it is for "
                f"{others}"
            )
    return partial(spec.build, options)


def build_net(
    options: ModelOptions,
    input_shape: tuple[int, ...],
    classes: int,
    *,
    fresh_head: bool = False,
    build: Build | None = None,
    trained: bool = True,
) -> Net | ForeignNet:
    """A new net in training mode, with `features(x)` [B, d] and `head`, checked by a dry run.

    Initial weights come from torch's global generator: seed it first (`Streams.seeded`).
    `input_shape` is (channels, height, width) or (features,), without the batch. With
    `fresh_head` the head is drawn even where the head of `options.weights` fits. `build` makes a
    net that the caller brings, instead of the one that the options name. One that will not be
    `trained` may have no parameters.

    Examples:
        >>> net = build_net(ModelOptions(name="mlp"), input_shape=(384,), classes=10)
        >>> net(torch.zeros(5, 384)).shape
        torch.Size([5, 10])
    """
    net = (build or find_build(options))(input_shape, classes).eval()
    samples = torch.zeros(2, *input_shape)
    check_output(options.name, net, samples, classes)
    if trained and not any(parameter.requires_grad for parameter in net.parameters()):
        raise UserError(
            f"model.name={options.name!r} has no parameters that could be trained; "
            "method.name=feddiv-audit does without training"
        )
    use_channels_last(net)
    whole = with_features_and_head(options.name, net, samples, classes)
    if options.weights is not None:
        weights = unwrapped(read_weights(options.weights, options.sha256), net)
        start_from(
            net,
            weights,
            _head_path(whole),
            subject=f"model.weights={options.weights} does not fit model.name={options.name!r}",
            hint=_stem_hint(options.name, weights, net),
            fresh_head=fresh_head,
        )
    elif options.sha256 is not None:
        raise UserError("model.sha256 says which file model.weights is, and that is not set")
    return whole.train()


def check_shapes(
    options: ModelOptions,
    input_shape: tuple[int, ...],
    classes: int,
    weights: Mapping[str, torch.Tensor],
) -> None:
    """Refuse weights that are not those of one of our nets, before memory is taken for it."""
    if is_import_path(options.name):
        return  # somebody's own may not be built without it
    with torch.device("meta"):
        net = find_build(options)(input_shape, classes)
    wanted = {key: tuple(value.shape) for key, value in net.state_dict().items()}
    found = {key: tuple(value.shape) for key, value in weights.items()}
    for key in sorted({*wanted, *found}):
        if wanted.get(key) != found.get(key):
            raise UserError(
                f"{key} has the shape {found.get(key)}, that of model.name={options.name!r} "
                f"{wanted.get(key)}"
            )


def _stem_hint(name: str, weights: Mapping[str, torch.Tensor], net: torch.nn.Module) -> str:
    """What to set where weights that do not fit have another stem than the net."""
    theirs, ours = stem_of(weights), stem_of(net.state_dict())
    if theirs in (None, ours) or "stem" not in find_net(name).takes:
        return ""
    return f"; model.stem={theirs} begins as these weights do"


def _head_path(net: Net | ForeignNet) -> str | None:
    """Where in the net its head is; None where a foreign net has none."""
    if isinstance(net, ForeignNet):
        return net.head_path
    paths: dict[torch.nn.Module, str] = {module: path for path, module in net.named_modules()}
    return paths[net.head]


def check_output(name: str, net: torch.nn.Module, samples: torch.Tensor, classes: int) -> None:
    """Refuse a net (in eval mode) that does not turn these samples into one logit per class."""
    try:
        with torch.no_grad():
            logits = net(samples)
    except Exception as problem:
        raise UserError(
            f"model.name={name!r} fails on samples of shape {tuple(samples.shape[1:])}: "
            f"{in_one_line(problem)}"
        ) from problem
    if not isinstance(logits, torch.Tensor):
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
