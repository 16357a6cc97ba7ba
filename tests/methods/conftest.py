"""Clients whose logits are their inputs, so that every score can be worked out by hand."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from feddiv.config.reading import load_experiment
from feddiv.core.randomness import Streams
from feddiv.data import Augment, Samples, Transform
from feddiv.learning.average import StateDict
from feddiv.methods.contract import Client, Message, Method
from feddiv.nets import ModelOptions
from feddiv.nets.build import build_net

CLASSES = 3


class Bench:
    """An mlp over vectors of three numbers, clients to put on it, and a count of its passes.

    `passes` counts samples: `learn` forward with gradients, `backward`, `raw` forward in training
    mode without gradients, `plain` forward in eval mode.
    """

    rng = Streams(3).at(round=1)

    def __init__(self) -> None:
        self.passes: Counter[str] = Counter()
        self.net = self._built()
        self._nets = {"net": self.net}

    def _built(self) -> nn.Module:
        net = build_net(ModelOptions(name="mlp"), (CLASSES,), CLASSES)
        net.register_forward_hook(self._count)
        return net

    def _count(self, net: nn.Module, inputs: tuple[Tensor, ...], logits: Tensor) -> None:
        samples = len(inputs[0])
        if not torch.is_grad_enabled():
            self.passes["raw" if net.training else "plain"] += samples
            return
        assert net.training, "gradients are for training"
        self.passes["learn"] += samples
        logits.register_hook(lambda gradient: self.passes.update(backward=len(gradient)))

    def identity(self, gain: float = 1.0) -> StateDict:
        """Weights under which the logits are the inputs times `gain`, for inputs of at least 0."""
        eye = {key: torch.zeros_like(value) for key, value in self.net.state_dict().items()}
        for key, value in eye.items():
            if key.endswith("weight"):
                value[:CLASSES, :CLASSES] = torch.eye(CLASSES)
        eye["fc.weight"] *= gain
        return eye

    def logits(self, weights: StateDict, client: Client) -> npt.NDArray[np.float64]:
        """What the net with these weights says of the client's samples."""
        self.net.load_state_dict(weights)
        with torch.no_grad():
            return self.net.eval()(client.samples.inputs).double().numpy()

    def client(
        self,
        inputs: npt.ArrayLike,
        given: Iterable[int],
        truth: Iterable[int] | None = None,
        id: int = 0,
    ) -> Client:
        """A client with these inputs [n, 3]."""
        rows = torch.tensor(np.asarray(inputs), dtype=torch.float32).reshape(-1, CLASSES)
        samples = Samples(
            inputs=rows,
            index=torch.arange(len(rows)),
            given=torch.tensor(list(given)),
            truth=None if truth is None else torch.tensor(list(truth)),
            transform=Transform((0.0,), (1.0,), Augment()),
        )
        assert len(samples.given) == len(rows)
        return Client(id, samples, CLASSES, self._load)

    def _load(self, name: str, weights: StateDict) -> nn.Module:
        if name not in self._nets:
            self._nets[name] = self._built()
        self._nets[name].load_state_dict(weights)
        return self._nets[name]

    def sure(self, says: Iterable[int], given: Iterable[int], size: float = 4.0) -> Client:
        """A client of samples that the identity is sure of: `says` is what it predicts."""
        says = list(says)
        return self.client(size * np.eye(CLASSES)[says], given, says)

    def method(self, name: str = "feddiv", **settings: object) -> Method[Any, Any]:
        """A method by name; settings are dotted keys with __ for the dot."""
        dotted = {key.replace("__", "."): value for key, value in settings.items()}
        return load_experiment(None, {"method.name": name, **dotted}).build_method()

    def message(
        self,
        kind: str = "train",
        weights: StateDict | None = None,
        *,
        eta: float = 0.0,
        **payload: npt.ArrayLike,
    ) -> Message:
        """What a client receives: the identity unless told otherwise."""
        arrays: Mapping[str, Any] = {key: np.asarray(value) for key, value in payload.items()}
        return Message(kind, {"net": weights or self.identity()}, {"eta": np.array(eta), **arrays})


@pytest.fixture
def bench() -> Bench:
    return Bench()
