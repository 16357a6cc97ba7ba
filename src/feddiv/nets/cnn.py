"""A small convolutional net that trains in minutes on a laptop's CPU."""

from itertools import pairwise

from torch import Tensor, nn

from feddiv.nets.net import Net, NetBuild, image_channels
from feddiv.nets.net_options import ModelOptions

WIDTHS = (32, 64, 128)
SMALL_IMAGE_WIDTHS = (32, 64)  # a third pooling would leave too few pixels
SMALL_IMAGE_BELOW = 16  # pixels of the shorter side


class Cnn(Net):
    """Blocks of conv3x3, batch norm, ReLU, max-pool 2; then global average pool and linear."""

    def __init__(self, channels: int, widths: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *(block(inputs, outputs) for inputs, outputs in pairwise((channels, *widths)))
        )
        self.fc = nn.Linear(widths[-1], classes)

    def features(self, x: Tensor) -> Tensor:
        maps: Tensor = self.blocks(x)
        return maps.mean(dim=(2, 3))


def block(inputs: int, outputs: int) -> nn.Sequential:
    """One block; it halves the side of the image."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
    )


def build_cnn(options: ModelOptions, input_shape: tuple[int, ...], classes: int) -> Cnn:
    """A CNN of three blocks, of two where the images are small."""
    channels = image_channels("cnn", input_shape, smallest_side=2 ** len(SMALL_IMAGE_WIDTHS))
    small = min(input_shape[1:]) < SMALL_IMAGE_BELOW
    return Cnn(channels, SMALL_IMAGE_WIDTHS if small else WIDTHS, classes)


CNN = NetBuild(build_cnn)
