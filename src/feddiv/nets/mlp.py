"""A multilayer perceptron, for feature vectors and very small images."""

import math

from torch import Tensor, nn

from feddiv.nets.net import Net, NetBuild

HIDDEN = 128


class Mlp(Net):
    """Flatten, two hidden layers with ReLU, linear."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.hidden = nn.Sequential(
            nn.Flatten(),
            nn.Linear(inputs, HIDDEN),
            nn.ReLU(inplace=True),
            nn.Linear(HIDDEN, HIDDEN),
            nn.ReLU(inplace=True),
        )
        self.fc = nn.Linear(HIDDEN, classes)

    def features(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.hidden(x)
        return hidden


def build_mlp(input_shape: tuple[int, ...], classes: int) -> Mlp:
    """An MLP for samples of any shape."""
    return Mlp(math.prod(input_shape), classes)


MLP = NetBuild(build_mlp)
