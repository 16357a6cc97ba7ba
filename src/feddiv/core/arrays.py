"""Types of arrays and of weights that every part of the package speaks of."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor as Tensor
    from torch.nn import Module as Module
else:
    Tensor = Module = Any  # torch takes seconds to load: names of types must not need it

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]  # class numbers
Rows = npt.NDArray[np.int64]  # numbers of samples
Parts = Sequence[Rows]  # the rows of each client
Mask = npt.NDArray[np.bool_]

StateDict = dict[str, Tensor]  # one model's weights
Weights = dict[str, StateDict]  # a named set of models
