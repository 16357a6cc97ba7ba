"""The small CNN of pfl-research's CIFAR-10 benchmark, one definition for all engines."""

from torch import nn


def build(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two unpadded 3x3 convolutions and one hidden layer; 1.6 million parameters on CIFAR-10."""
    channels, height, width = input_shape
    pooled = (height - 4) // 2 * ((width - 4) // 2)
    net = nn.Sequential(
        nn.Conv2d(channels, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(64 * pooled, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, classes),
    )
    for layer in net:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
    return net
