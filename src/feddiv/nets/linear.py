"""One linear layer: multinomial logistic regression, for feature vectors of a good encoder."""

import math

from torch import Tensor, nn

from feddiv.nets.net import Net, NetBuild
from feddiv.nets.net_options import ModelOptions


class Linear(Net):
    """Flatten, linear: the features are the sample itself."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.fc = nn.Linear(inputs, classes)

    def features(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def stacked(self) -> list[nn.Linear] | None:
        return [self.fc] if type(self) is Linear else None


def build_linear(options: ModelOptions, input_shape: tuple[int, ...], classes: int) -> Linear:
    """A linear classifier for samples of any shape."""
    return Linear(math.prod(input_shape), classes)


LINEAR = NetBuild(build_linear)
