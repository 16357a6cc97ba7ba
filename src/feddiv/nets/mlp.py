"""A multilayer perceptron, for feature vectors and very small images."""

import math
from collections.abc import Callable, Iterator, Mapping

from torch import Tensor, nn

from feddiv.nets.net import Net, NetBuild
from feddiv.nets.net_options import ModelOptions, Norm

HIDDEN, LAYERS = 128, 2
NORMS: Mapping[Norm, Callable[[int], nn.Module]] = {
    "layer": nn.LayerNorm,
    "batch": nn.BatchNorm1d,
}


class Mlp(Net):
    """Flatten, hidden layers (linear, norm if any, ReLU, dropout if any), linear.

    What dropout leaves out is drawn from torch's global generator, which whoever trains the net has
    seeded (`Streams.seeded`).
    """

    def __init__(
        self,
        inputs: int,
        classes: int,
        *,
        hidden: int = HIDDEN,
        layers: int = LAYERS,
        dropout: float = 0.0,
        norm: Norm = "none",
    ) -> None:
        super().__init__()
        widths = [inputs] + [hidden] * (layers - 1)
        blocks = [part for width in widths for part in _layer(width, hidden, dropout, norm)]
        self.hidden = nn.Sequential(nn.Flatten(), *blocks)
        self.fc = nn.Linear(hidden, classes)

    def features(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.hidden(x)
        return hidden

    def stacked(self) -> list[nn.Linear] | None:
        parts = list(self.hidden)[1:]
        linear = [part for part in parts if isinstance(part, nn.Linear)]
        plain = type(self) is Mlp and all(isinstance(part, nn.Linear | nn.ReLU) for part in parts)
        return [*linear, self.fc] if plain else None


def _layer(inputs: int, outputs: int, dropout: float, norm: Norm) -> Iterator[nn.Module]:
    """The parts of one hidden layer."""
    yield nn.Linear(inputs, outputs)
    if norm in NORMS:
        yield NORMS[norm](outputs)
    yield nn.ReLU(inplace=True)
    if dropout:
        yield nn.Dropout(dropout)


def build_mlp(options: ModelOptions, input_shape: tuple[int, ...], classes: int) -> Mlp:
    """An MLP for samples of any shape."""
    return Mlp(math.prod(input_shape), classes, **options.architecture)


MLP = NetBuild(build_mlp, frozenset({"hidden", "layers", "dropout", "norm"}))
