"""Nets from elsewhere: "package.module:factory", and the two parts that methods ask of a net."""

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from feddiv.core.errors import UserError, in_one_line
from feddiv.core.import_path import import_for
from feddiv.nets.net import Net, NetBuild
from feddiv.nets.net_options import ModelOptions


def import_net(path: str) -> NetBuild:
    """The net whose factory is at this import path; it is called by keyword, once for each net."""
    factory = import_factory(path)

    def build(options: ModelOptions, input_shape: tuple[int, ...], classes: int) -> nn.Module:
        try:
            net = factory(input_shape=input_shape, classes=classes)
        except Exception as problem:
            raise UserError(
                f"model.name={path!r}: the factory failed when called with "
                f"input_shape={input_shape}, classes={classes}: {in_one_line(problem)}"
            ) from problem
        if not isinstance(net, nn.Module):
            raise UserError(
                f"model.name={path!r}: the factory gave a {type(net).__name__}, "
                "not a torch.nn.Module"
            )
        return net

    return NetBuild(build)


def import_factory(path: str) -> Callable[..., object]:
    """The callable at "package.module:factory"."""
    found = import_for("model.name", path, "package.module:factory")
    if not callable(found):
        name = path.partition(":")[2]
        raise UserError(
            f"model.name={path!r}: {name!r} is of type {type(found).__name__} and cannot be called"
        )
    factory: Callable[..., object] = found
    return factory


class ForeignNet(nn.Module):
    """A view of a foreign net that adds `features` and `head`.

    It shares the net's own registries, so parameters, buffers and state-dict keys are the net's.
    Its own attributes may not go through nn.Module.__setattr__, which would add to those keys.
    """

    name: str
    net: nn.Module
    head_path: str | None

    def __init__(self, name: str, net: nn.Module, head_path: str | None) -> None:
        super().__init__()
        for registry in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[registry] = net.__dict__[registry]
        self.__dict__.update(name=name, net=net, head_path=head_path)

    def forward(self, x: Tensor) -> Tensor:
        """Logits, [B, classes]."""
        logits: Tensor = self.net(x)
        return logits

    def features(self, x: Tensor) -> Tensor:
        """The input of the head, [B, d]."""
        caught: list[Tensor] = []
        hook = self.head.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0]))
        try:
            self.net(x)
        finally:
            hook.remove()
        return caught[-1]

    @property
    def head(self) -> nn.Linear:
        """The last linear layer."""
        if self.head_path is None:
            raise UserError(
                f"model.name={self.name!r} does not end in a torch.nn.Linear over the classes, so "
                "it has no features and head; choose another net or a method that needs none"
            )
        head = self.net.get_submodule(self.head_path)
        assert isinstance(head, nn.Linear)
        return head

    def train(self, mode: bool = True) -> "ForeignNet":
        self.net.train(mode)
        self.training = mode
        return self


def with_features_and_head(
    name: str, net: nn.Module, samples: Tensor, classes: int
) -> Net | ForeignNet:
    """The net itself if it is made of `features` and `head`, else a view of it that adds them."""
    if isinstance(net, Net):
        return net
    if is_in_two_parts(net, samples):
        return cast(Net, net)  # not by descent, but it offers the same
    return ForeignNet(name, net, path_of_head(net, samples, classes))


def is_in_two_parts(net: nn.Module, samples: Tensor) -> bool:
    """Whether forward is head(features(x)). Nets use these names for other things as well."""
    features, head = getattr(net, "features", None), getattr(net, "head", None)
    if not callable(features) or not isinstance(head, nn.Linear):
        return False
    try:
        with torch.no_grad():
            return torch.allclose(net(samples), head(features(samples)))
    except Exception:  # whatever these two are, they are not meant to follow each other
        return False


def path_of_head(net: nn.Module, samples: Tensor, classes: int) -> str | None:
    """Where in the net the last Linear that runs is, among those from [B, d] to the classes."""
    ran: list[nn.Module] = []

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if inputs and inputs[0].dim() == 2:
            ran.append(module)

    linears: dict[nn.Module, str] = {
        module: path
        for path, module in net.named_modules()
        if isinstance(module, nn.Linear) and module.out_features == classes
    }
    hooks = [module.register_forward_pre_hook(note) for module in linears]
    try:
        with torch.no_grad():
            net(samples)
    finally:
        for hook in hooks:
            hook.remove()
    return linears[ran[-1]] if ran else None
