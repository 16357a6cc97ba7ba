"""New labels for samples whose own was dropped, where the global model is sure (Eq. Relabel)."""

import numpy as np
import numpy.typing as npt
from pydantic import Field

from feddiv.core.options import Options


class RelabelOptions(Options):
    """What becomes of samples whose label the filter rejects."""

    enabled: bool = True  # else they are left out of the visit
    confidence: float = Field(0.75, ge=0, le=1)  # zeta: how sure the model has to be
    persist: bool = False  # keep the new label for good, as the released code does
    min_noise: float = Field(0.1, ge=0, le=1)  # relabelled samples train above this noise level


def relabel(
    probabilities: npt.NDArray[np.float64], noisy: npt.NDArray[np.bool_], confidence: float
) -> npt.NDArray[np.bool_]:
    """Which noisy samples [n] get the label the model predicts, given softmax outputs [n, C]."""
    return np.asarray(noisy & (probabilities.max(axis=1) >= confidence))
