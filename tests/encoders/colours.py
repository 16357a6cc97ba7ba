"""Encoders whose features can be worked out by hand."""

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

WIDTH = 4


class Colours(nn.Module):
    """The mean of each colour, in [0,1], and that of the left half: [n,4]."""

    size = 8

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        left = x[..., : x.shape[-1] // 2].mean((1, 2, 3))
        return torch.cat([x.mean((2, 3)), left[:, None]], dim=1) * self.scale


class OtherColours(Colours):
    """The same with other weights."""

    def __init__(self) -> None:
        super().__init__()
        self.scale *= 2


class Maps(nn.Module):
    """No vector: the image itself."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class Nothing(nn.Module):
    """Vectors without a feature."""

    size = 8

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))[:, :0]


class Uneven(nn.Module):
    """A feature more for what is not black."""

    size = 8

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))[:, : 2 + bool(x.any())]


class NoNumbers(nn.Module):
    """Divides by how bright an image is: black ones have no features."""

    size = 8

    def forward(self, x: Tensor) -> Tensor:
        means = x.mean((2, 3))
        return means / means


class Whole(nn.Module):
    """Maps of whole numbers: the brightness of each pixel, in [0,255]."""

    size = 8

    def forward(self, x: Tensor) -> Tensor:
        return (x * 255).round().long()


class Coarse(nn.Module):
    """Maps of few bits: 1 where it is dark, 4/3 where it is bright."""

    size = 8

    def forward(self, x: Tensor) -> Tensor:
        return (1 + x / 3).bfloat16()


class Complex(nn.Module):
    """Numbers that no net takes."""

    size = 8

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fft(x.mean((2, 3)))


class Mixing(nn.Module):
    """Features relative to those of the other images: batch statistics, in evaluation too."""

    size = 8

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x).square().mean((2, 3))
        return y


class TooSmall(Colours):
    """Wants images that no config can ask for."""

    size = 4


class NoSpread(Colours):
    """Would have pixels divided by nothing."""

    std = (0.0,)


class NoNumber(Colours):
    """Says that it normalises, and not by what."""

    std = ()


def no_module() -> str:
    return "colours"


def onnx_file(
    path: Path,
    *,
    pooled: bool = True,
    size: int | str = 8,
    batch: int | str = "n",
    channels: int = 3,
    metadata: dict[str, str] | None = None,
) -> Path:
    """A graph that gives twice the mean of each colour, or without pooling twice the image."""
    two = numpy_helper.from_array(np.array(2.0, np.float32), "two")
    nodes = [helper.make_node("Mul", ["image", "two"], ["doubled"])]
    shape: list[int | str] = [batch, channels, size, size]
    if pooled:
        nodes.append(helper.make_node("GlobalAveragePool", ["doubled"], ["means"]))
        nodes.append(helper.make_node("Flatten", ["means"], ["features"]))
    graph = helper.make_graph(
        nodes,
        "colours",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [
            helper.make_tensor_value_info(
                "features" if pooled else "doubled",
                TensorProto.FLOAT,
                [batch, channels] if pooled else shape,
            )
        ],
        [two],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, metadata or {})
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
    return path
