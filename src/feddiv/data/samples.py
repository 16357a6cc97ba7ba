"""One client's view of the shared tensors."""

from dataclasses import dataclass

import torch
from torch import Tensor

from feddiv.data.draw import Draw
from feddiv.data.store import Dataset
from feddiv.data.transform import Transform


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of one client: an index array, never a copy of the data.

    `inputs` is the whole shared tensor, on the device of the data set; `index`, `given` and `truth`
    are int64 [n], the labels always in main memory. Rows are positions 0..n-1 in the client, not
    indices into the data set.
    """

    inputs: Tensor
    index: Tensor
    given: Tensor
    truth: Tensor | None
    transform: Transform

    def __len__(self) -> int:
        return len(self.index)

    def plain(self, rows: Tensor | slice) -> Tensor:
        """Normalised inputs of these rows."""
        return self.transform.plain(self.inputs.index_select(0, self.index[rows]))

    def augmented(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Randomly augmented, normalised inputs of these rows."""
        return self.transform.augmented(self.inputs.index_select(0, self.index[rows]), generator)


def client_samples(dataset: Dataset, draw: Draw, client: int) -> Samples:
    """What this client holds under this draw."""
    part = draw.parts[client]
    inputs = dataset.train.inputs
    return Samples(
        inputs=inputs,
        index=torch.tensor(part, dtype=torch.int64, device=inputs.device),
        given=torch.tensor(draw.given[part], dtype=torch.int64),
        truth=None if draw.truth is None else torch.tensor(draw.truth[part], dtype=torch.int64),
        transform=dataset.transform,
    )
