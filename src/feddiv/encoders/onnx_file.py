"""An encoder in an ONNX file (DINOv2, CLIP, sentence encoders, …), run by onnxruntime."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from feddiv.core.errors import UserError
from feddiv.core.weights import weights_content
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.contract import Encoder
from feddiv.encoders.images import (
    COLOURS,
    IMAGENET_MEAN,
    IMAGENET_STD,
    ImageEncoder,
    completed,
    usual_size,
)
from feddiv.encoders.onnx_session import OnnxGraph
from feddiv.encoders.onnx_text import of_texts


class OnnxEncoder(ImageEncoder):
    """A graph with one input, float32 [n,3,S,S]; the first output that is a vector counts.

    A graph that takes a fixed number of images gets as many.
    """

    def __init__(self, choice: EncoderChoice, graph: OnnxGraph) -> None:
        super().__init__(choice)
        self._graph = graph
        (self._input,) = (each.name for each in graph.inputs)
        fixed = graph.inputs[0].shape[0]
        self._count = fixed if isinstance(fixed, int) else None
        self.batch = self._count or self.batch
        self._output = _output(graph.session, choice)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The output of the graph."""
        missing = 0 if self._count is None else -len(inputs) % self._count
        if missing:
            inputs = torch.cat([inputs, inputs.new_zeros(missing, *inputs.shape[1:])])
        parts = torch.split(inputs, self._count or len(inputs))
        found = [self._run(part.contiguous().numpy()) for part in parts]
        return torch.from_numpy(np.concatenate(found)[: len(inputs) - missing])

    def _run(self, inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        (output,) = self._graph.session.run([self._output], {self._input: inputs})
        found = np.asarray(output)
        if not found.ndim or len(found) != len(inputs):  # before parts are put together
            raise UserError(
                f"data.encoder={self.choice.name} gives shape {found.shape} for {len(inputs)} "
                f"images; wanted is one vector each, ({len(inputs)}, D)"
            )
        return found


def make(choice: EncoderChoice, side: int | None) -> Encoder:
    """The encoder in this file; what it does not say about its images, the choice has to.

    One whose inputs are tokens is for texts.
    """
    graph = OnnxGraph(weights_content(Path(choice.name), "data.encoder"), choice.name)
    if graph.takes_tokens:
        return of_texts(choice, graph)
    size = _image_side(graph.session, choice)
    said = graph.session.get_modelmeta().custom_metadata_map
    noted = None if choice.size or size else _numbers(said, "size", choice)
    if choice.size is not None and size not in (None, choice.size):
        raise UserError(
            f"data.encoder_size={choice.size}: data.encoder={choice.name} takes images of "
            f"{size}x{size} pixels only"
        )
    mean, std = (
        choice.mean or _numbers(said, "mean", choice),
        choice.std or _numbers(said, "std", choice),
    )
    if mean is None or std is None:
        raise UserError(
            f"data.encoder={choice.name}: takes images and does not say what they are normalised "
            "with; set data.encoder_mean and data.encoder_std (ImageNet's are "
            f"{_listed(IMAGENET_MEAN)} and {_listed(IMAGENET_STD)})"
        )
    full = completed(
        choice,
        sha256=hashlib.sha256(graph.content).hexdigest(),
        size=size or (noted[0] if noted else usual_size(side)),
        mean=mean,
        std=std,
    )
    return OnnxEncoder(full, graph)


def _image_side(session: Any, choice: EncoderChoice) -> int | None:
    """The side of the images that the graph takes, None where it takes any."""
    inputs = session.get_inputs()
    shape = inputs[0].shape if len(inputs) == 1 else []
    images = len(shape) == 4 and inputs[0].type == "tensor(float)"
    if not images or (isinstance(shape[1], int) and shape[1] != COLOURS):
        found = ", ".join(f"{each.name} {each.type} {each.shape}" for each in inputs)
        raise UserError(
            f"data.encoder={choice.name}: its inputs are {found[:200]}; wanted is one of images, "
            f"tensor(float) [n, {COLOURS}, height, width]"
        )
    sides = [side for side in shape[2:] if isinstance(side, int)]
    if len(set(sides)) > 1:
        raise UserError(
            f"data.encoder={choice.name}: takes images of {shape[2]}x{shape[3]}; wanted are squares"
        )
    return sides[0] if sides else None


def _output(session: Any, choice: EncoderChoice) -> str:
    """The first output that is a vector for each image; where pooling is asked for, the first."""
    outputs = session.get_outputs()
    vectors = [each.name for each in outputs if len(each.shape) == 2 and choice.pooling is None]
    name: str = (vectors or [outputs[0].name])[0]
    return name


def _numbers(said: Mapping[str, str], key: str, choice: EncoderChoice) -> tuple[float, ...] | None:
    """What the file's metadata say under this key: numbers, however they are separated."""
    if key not in said:
        return None
    parts = [part for part in re.split(r"[\s,;\[\]()]+", said[key]) if part]
    try:
        numbers = tuple(float(part) for part in parts)
    except ValueError:
        numbers = (math.nan,)
    if not all(map(math.isfinite, numbers)):
        raise UserError(
            f"data.encoder={choice.name}: its metadata say {key}={said[key][:80]!r}, which are no "
            f"numbers; set data.encoder_{key}"
        )
    return numbers or None


def _listed(numbers: tuple[float, ...]) -> str:
    return ",".join(map(str, numbers))
