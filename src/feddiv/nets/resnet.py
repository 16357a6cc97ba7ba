"""Residual networks (He et al. 2016), with the stem for CIFAR or for ImageNet.

Parameters are named as in torchvision (conv1, bn1, layer1.0.conv1, …, downsample.0, fc), so that
published weights fit the ImageNet stem: conv 7x7 with stride 2, max-pool. ResNet-18 and -34 have
by default the stem of the federated noisy-label benchmarks: conv 3x3 with stride 1, no max-pool,
and PyTorch's default initialisation.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from feddiv.nets.net import Net, NetBuild, image_channels
from feddiv.nets.net_options import ModelOptions, Stem

KERNELS: dict[Stem, int] = {"cifar": 3, "imagenet": 7}  # side of the first convolution
STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # (width, stride of the stage's first block)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(inputs, width * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        summed: Tensor = self.relu(out + (x if self.downsample is None else self.downsample(x)))
        return summed


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut; the stride sits in the 3x3."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(inputs, width * self.expansion, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        summed: Tensor = self.relu(out + (x if self.downsample is None else self.downsample(x)))
        return summed


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    """A projection where the block changes the shape, else nothing: the input itself is added."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


class ResNet(Net):
    """A stem, four stages of residual blocks, global average pool, linear."""

    def __init__(
        self,
        block: type[BasicBlock] | type[Bottleneck],
        depths: tuple[int, int, int, int],
        channels: int,
        classes: int,
        *,
        imagenet_stem: bool,
    ) -> None:
        super().__init__()
        if imagenet_stem:
            self.conv1 = nn.Conv2d(channels, 64, KERNELS["imagenet"], 2, padding=3, bias=False)
        else:
            self.conv1 = nn.Conv2d(channels, 64, KERNELS["cifar"], padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1) if imagenet_stem else nn.Identity()

        inputs = 64
        for number, (depth, (width, stride)) in enumerate(zip(depths, STAGES, strict=True), 1):
            outputs = width * block.expansion
            blocks = [block(inputs, width, stride)]
            blocks += [block(outputs, width, 1) for _ in range(depth - 1)]
            self.add_module(f"layer{number}", nn.Sequential(*blocks))
            inputs = outputs
        self.fc = nn.Linear(inputs, classes)

    def features(self, x: Tensor) -> Tensor:
        maps: Tensor = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for number in range(1, len(STAGES) + 1):
            maps = self.get_submodule(f"layer{number}")(maps)
        return maps.mean(dim=(2, 3))


def stem_of(weights: Mapping[str, Tensor]) -> Stem | None:
    """The stem that weights of a ResNet have, by their first convolution."""
    first = weights.get("conv1.weight")
    side = first.shape[-1] if first is not None and first.dim() == 4 else None
    return next((stem for stem, kernel in KERNELS.items() if kernel == side), None)


@dataclass(frozen=True)
class Plan:
    """What tells one ResNet from another."""

    name: str
    block: type[BasicBlock] | type[Bottleneck]
    depths: tuple[int, int, int, int]
    usual: Stem

    def build(self, options: ModelOptions, input_shape: tuple[int, ...], classes: int) -> ResNet:
        """The net; as for ImageNet it also has the initialisation that is usual there."""
        channels = image_channels(self.name, input_shape)
        imagenet = (options.stem or self.usual) == "imagenet"
        net = ResNet(self.block, self.depths, channels, classes, imagenet_stem=imagenet)
        for module in net.modules() if imagenet else ():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        return net

    @property
    def net(self) -> NetBuild:
        """How it is built, with its usual stem or another."""
        return NetBuild(self.build, frozenset({"stem"}))


RESNET18 = Plan("resnet18", BasicBlock, (2, 2, 2, 2), "cifar").net
RESNET34 = Plan("resnet34", BasicBlock, (3, 4, 6, 3), "cifar").net
RESNET50 = Plan("resnet50", Bottleneck, (3, 4, 6, 3), "imagenet").net
