"""Small-loss selection: clients leave out the labels that the received model finds hardest."""

import numpy as np
from pydantic import Field
from torch import from_numpy

from feddiv import methods as fd


class SmallLossOptions(fd.MethodOptions):
    most: float = Field(0.8, ge=0, lt=1)  # share of its labels that a client leaves out at most
    start: float = Field(0.2, ge=0, lt=1)  # share of the rounds in which none are left out


class SmallLoss(fd.Averaging[None]):  # None: clients remember nothing between two visits
    """FedAvg on each client's labels of small loss; clients count by how many these are."""

    summary = "FedAvg on labels of small loss, as many as the received model agrees with"
    paper = "after Co-teaching, Han et al., NeurIPS 2018"
    Options = SmallLossOptions
    variants = {
        "default": fd.Variant("a client may leave out four fifths of its labels"),
        "half": fd.Variant("a client may leave out half of its labels", {"most": 0.5}),
    }

    def kinds(self, facts):
        """What crosses the network besides models: the share down, a count up."""
        kept = fd.Declared(shape=(), low=1, high=max(facts.sizes.values()))
        return {"train": fd.Kind({**fd.DIVERGENCE, "kept": kept}, message=("most",))}

    def payload(self, moment):
        started = moment.turn >= self.budget.part(self.options.start)
        return {"most": np.array(self.options.most if started else 0.0)}

    def visit(self, client, memory, received, rng):
        net, samples = client.net(received.weights["net"]), client.samples
        small, _, losses = self.judged(client, net, float(received.payload["most"]))
        rows = from_numpy(np.flatnonzero(small))
        select = lambda epoch: (rows, samples.given[rows])  # noqa: E731
        fd.train(net, samples, select, fd.cross_entropy, self.training, rng)
        reply = fd.trained_reply(client, net, received, {"kept": np.array(float(small.sum()))})
        return fd.Visit(reply, None, fd.flagged_diary(samples, samples.given.numpy(), ~small))

    def amount(self, reply):
        return float(reply.payload["kept"])

    def assess(self, client, memory, received):
        net = client.net(received.weights["net"])
        small, predicted, losses = self.judged(client, net, self.options.most)
        return fd.Assessment(predicted, p_clean=small.astype(float), scores=losses)

    def judged(self, client, net, most):
        """Which labels [n] have a small loss, what the net predicts, and the losses."""
        given, logits = client.samples.given.numpy(), fd.predict_array(net, client.samples)
        losses = fd.label_scores(logits, given, "cross_entropy")
        predicted = logits.argmax(axis=1)
        kept = max(round(len(given) * (1 - min((predicted != given).mean(), most))), 1)
        return losses.argsort(kind="stable").argsort() < kept, predicted, losses
