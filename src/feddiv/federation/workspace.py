"""Where clients' work is done: the data, and net objects that are used again and again."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from feddiv.config.experiment import Experiment
from feddiv.core.arrays import StateDict, Weights
from feddiv.core.randomness import Streams
from feddiv.data import Dataset, Draw, client_samples, held_out_samples
from feddiv.data.scaling import Scaling
from feddiv.learning.predict import CHUNK
from feddiv.methods.common import copy_of
from feddiv.methods.contract import Client, Method
from feddiv.nets import ModelOptions
from feddiv.nets.build import build_net
from feddiv.nets.compute import Precision, find_device, set_up
from feddiv.nets.net import Build
from feddiv.privacy.options import PrivacyOptions

FEW = 8  # samples that show whether a model is of any use


class Workspace:
    """One process's means to act as any client: one net object per name, updated in place."""

    def __init__(
        self,
        method: Method[Any, Any],
        dataset: Dataset,
        draw: Draw,
        model: ModelOptions,
        *,
        device: torch.device | None = None,
        precision: Precision = "fp32",
        compiled: bool = False,
        factory: Callable[[], nn.Module] | None = None,
        privacy: PrivacyOptions | None = None,
        tells_sums: bool = False,
    ) -> None:
        self.device = device or torch.device("cpu")
        self.method, self.draw, self.model = method, draw, model
        self.dataset = dataset.on(self.device)
        self.precision, self.compiled = precision, compiled
        self.privacy = privacy or PrivacyOptions()
        self.tells_sums = tells_sums  # of features: whether clients are asked for them
        self.transform = dataset.transform
        # A net that the caller brings knows its own shape.
        self._build: Build | None = None if factory is None else lambda shape, classes: factory()
        self._nets: dict[str, nn.Module] = {}

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        dataset: Dataset,
        draw: Draw,
        net: Callable[[], nn.Module] | None = None,
    ) -> "Workspace":
        """For the clients of an experiment; `net` makes a net that the caller brings."""
        return cls(
            experiment.build_method(),
            dataset,
            draw,
            experiment.model,
            device=find_device(experiment.device),
            precision=experiment.precision,
            compiled=experiment.compile,
            factory=net,
            privacy=experiment.privacy,
            tells_sums=experiment.data.standardise == "clients",
        )

    def standardise(self, scaling: Scaling) -> None:
        """Feature vectors are standardised by this from now on."""
        self.dataset = self.dataset.scaled_by(scaling)
        self.transform = self.dataset.transform

    def make_model(self, name: str, rng: Streams) -> StateDict:
        """Weights as the net's own initialisers draw them, or those it starts from.

        Where a method makes several models they must differ: only "net" takes over a head.
        """
        with rng.seeded(f"model {name}"):
            net = self._built(self.model, fresh_head=name != "net")
        return copy_of(net)

    def check_net(self) -> None:
        """Refuse a net that does not fit the data; the weights it starts from are not needed."""
        self._built(self.model.untrained)

    def plain_net(self) -> nn.Module:
        """A net of this kind in main memory, whatever its weights; nothing is drawn for it."""
        with torch.random.fork_rng(devices=[]):
            return self._built(self.model.untrained)

    def _built(self, model: ModelOptions, *, fresh_head: bool = False) -> nn.Module:
        return build_net(
            model,
            self.dataset.input_shape,
            len(self.dataset.classes),
            fresh_head=fresh_head,
            build=self._build,
            trained=self.method.trains,
        )

    def client(self, id: int) -> Client:
        """The client of this id."""
        self.dataset.train.let_go()  # the client before this one is done with
        samples = client_samples(self.dataset, self.draw, id)
        held_out = held_out_samples(self.dataset, self.draw, id)
        return Client(id, samples, len(self.dataset.classes), self.load, held_out)

    def load(self, name: str, weights: StateDict) -> nn.Module:
        """The net of this name, holding these weights."""
        if name not in self._nets:
            fresh = self.plain_net()  # what it draws is overwritten below
            set_up(fresh, self.device, self.precision, compiled=self.compiled)
            self._nets[name] = fresh
        net = self._nets[name]
        net.load_state_dict(weights)
        return net

    @property
    def test_chunks(self) -> int:
        """How many chunks the test samples are predicted in."""
        return -(-len(self.dataset.test) // CHUNK)

    @torch.no_grad()
    def evaluate(
        self, weights: Weights, first: int = 0, last: int | None = None
    ) -> npt.NDArray[np.float32]:
        """Test logits [N, C], in fixed chunks; of the chunks from `first` up to `last` only."""
        nets = {name: self.load(name, state).eval() for name, state in weights.items()}
        test = self.dataset.test
        starts = range(0, max(1, len(test)), CHUNK)[first:last]
        chunks = (test.rows(slice(start, start + CHUNK)) for start in starts)
        outputs = [
            self.method.predict(nets, self.transform.plain(chunk.to(self.device)))
            for chunk in chunks
        ]
        test.let_go()
        return torch.cat(outputs).float().cpu().numpy()

    @torch.no_grad()
    def outputs_finite(self, weights: Weights) -> bool:
        """Whether the model's outputs make sense: on a few test samples or, without, on noise."""
        test, shape = self.dataset.test, (FEW, *self.dataset.input_shape)
        if len(test):
            inputs = self.transform.plain(test.rows(slice(FEW)).to(self.device))
        else:
            inputs = torch.randn(shape, generator=Streams(0).torch("probe")).to(self.device)
        nets = {name: self.load(name, state).eval() for name, state in weights.items()}
        finite = bool(self.method.predict(nets, inputs).isfinite().all())
        test.let_go()
        return finite
