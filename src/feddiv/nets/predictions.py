"""No net at all: samples that are predictions already, each made by its site's own classifier."""

from torch import Tensor, nn

from feddiv.core.errors import UserError
from feddiv.nets.net import NetBuild
from feddiv.nets.net_options import ModelOptions


class NoNet(nn.Module):
    """Gives back what it gets, logits [B, C]. There is nothing to send, and nothing to train."""

    def forward(self, x: Tensor) -> Tensor:
        """Logits, [B, C]."""
        return x


def build_predictions(options: ModelOptions, input_shape: tuple[int, ...], classes: int) -> NoNet:
    """For vectors with one logit for each class."""
    if input_shape != (classes,):
        raise UserError(
            f"model.name={options.name!r} takes samples that are predictions, {classes} logits "
            f"each; here a sample has shape {input_shape}"
        )
    return NoNet()


PREDICTIONS = NetBuild(build_predictions)
