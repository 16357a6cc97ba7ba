"""The client of the Flower app.

A module of its own: what is imported lives on in an actor from message to message, while what
belongs to the script that was started is sent along and made anew with every one.
"""

import os
from functools import cache
from pathlib import Path

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn
from torch.nn import functional as F
from work import BATCH, IMAGES, Images, make_net, sgd, training_images

IMAGES_VARIABLE = "PEERS_IMAGES"
SEED_VARIABLE = "PEERS_SEED"

app = ClientApp()


@cache
def net() -> nn.Module:
    """The one net of this actor, updated in place."""
    torch.set_num_threads(1)
    torch.manual_seed(int(os.environ[SEED_VARIABLE]) + os.getpid())
    return make_net().train()


@cache
def images() -> Images:
    """Everybody's training images, read once by each actor."""
    return training_images(Path(os.environ[IMAGES_VARIABLE]), int(os.environ[SEED_VARIABLE]))


@app.train()
def train(message: Message, context: Context) -> Message:
    """One epoch of SGD from the received weights, as the client of this node or the one told."""
    model, told = net(), message.content["config"]
    mine = images().part(int(told.get("client", context.node_config["partition-id"])), IMAGES)
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimiser = sgd(model.parameters())
    steps = 0
    for inputs, labels in zip(mine.inputs.split(BATCH), mine.labels.split(BATCH), strict=True):
        optimiser.zero_grad()
        F.cross_entropy(model(inputs), labels).backward()
        optimiser.step()
        steps += 1
    metrics = MetricRecord({"num-examples": len(mine.labels), "steps": steps})
    reply = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=reply, reply_to=message)
