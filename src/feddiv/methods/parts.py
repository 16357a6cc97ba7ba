"""What several methods do alike around a local training."""

import torch
from torch import nn

from feddiv.learning.average import StateDict
from feddiv.methods.contract import Client, Declared, Message, Payload, Reply

DIVERGENCE = {"divergence": Declared((), low=0.0)}


def trained_reply(
    client: Client, net: nn.Module, received: Message, payload: Payload | None = None
) -> Reply:
    """The reply that carries a trained net: its weights, n_k, and how far it moved."""
    return Reply(
        client=client.id,
        samples=len(client),
        weights={"net": copy_of(net)},
        payload=payload or {},
        metrics={"divergence": divergence(net, received.weights["net"])},
    )


def copy_of(net: nn.Module) -> StateDict:
    """Weights in contiguous memory of their own: the net object goes on to the next client."""
    plain = torch.contiguous_format
    return {
        key: value.detach().cpu().clone(memory_format=plain)
        for key, value in net.state_dict().items()
    }


def divergence(net: nn.Module, received: StateDict) -> float:
    """Squared distance of the trained parameters from the received ones (the paper's stability)."""
    return sum(
        (value.detach().cpu() - received[key]).square_().sum().item()
        for key, value in net.named_parameters()
    )
