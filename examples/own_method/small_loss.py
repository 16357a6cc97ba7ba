"""Small-loss selection: clients leave out the labels that the received model finds hardest."""

from typing import ClassVar

import numpy as np
from pydantic import Field
from torch import from_numpy

from feddiv import methods as fd


class SmallLossOptions(fd.MethodOptions):
    most: float = Field(0.8, ge=0, lt=1)  # share of its labels that a client leaves out at most
    start: float = Field(0.2, ge=0, lt=1)  # share of the rounds before any are left out


class SmallLoss(fd.Averaging[None]):  # None: clients remember nothing between two visits
    summary = "FedAvg on labels of small loss, as many as the received model agrees with"
    paper = "after Co-teaching: Han et al., NeurIPS 2018"
    Options = SmallLossOptions
    variants: ClassVar = {
        "default": fd.Variant("a client may leave out four fifths of its labels"),
        "half": fd.Variant("a client may leave out half of its labels", {"most": 0.5}),
    }

    def kinds(self, facts):
        """What crosses the network besides the model: a share goes down, a count comes up."""
        kept = fd.Declared(shape=(), low=1, high=max(facts.sizes.values()))
        return {"train": fd.Kind(reply={**fd.DIVERGENCE, "kept": kept}, message=("most",))}

    def payload(self, moment):
        """What the server sends along in this round."""
        started = moment.turn >= self.budget.part(self.options.start)
        return {"most": np.array(self.options.most if started else 0.0)}

    def visit(self, client, memory, received, rng):
        """A client trains on its labels of small loss, and says how many those are."""
        net, samples = client.net(received.weights["net"]), client.samples
        small = self.judge(net, samples, float(received.payload["most"])).p_clean == 1
        rows = from_numpy(np.flatnonzero(small))
        chosen = rows, samples.given[rows]
        fd.train(net, samples, lambda epoch: chosen, fd.cross_entropy, self.training, rng)
        reply = fd.trained_reply(client, net, received, {"kept": np.array(float(len(rows)))})
        return fd.Visit(reply, None, fd.flagged_diary(samples, samples.given.numpy(), ~small))

    def amount(self, reply):
        """How much a client's model counts in the server's mean: by the labels it kept."""
        return float(reply.payload["kept"])

    def assess(self, client, memory, received):
        """After the last round: which labels a client holds to be wrong. It stays there."""
        return self.judge(client.net(received.weights["net"]), client.samples, self.options.most)

    def judge(self, net, samples, most):
        given, logits = samples.given.numpy(), fd.predict_array(net, samples)
        losses, predicted = fd.label_scores(logits, given, "cross_entropy"), logits.argmax(axis=1)
        kept = max(round(len(given) * (1 - min((predicted != given).mean(), most))), 1)
        small = losses.argsort(kind="stable").argsort() < kept
        return fd.Assessment(predicted, p_clean=small.astype(float), scores=losses)
