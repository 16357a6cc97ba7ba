"""The tutorial's method with one kind of mistake or another."""

import random
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from examples.own_method.small_loss import SmallLoss

from feddiv import methods as fd
from feddiv.methods.contract import Corrected


def changed(visit, **fields):
    return replace(visit, reply=replace(visit.reply, **fields))


def with_payload(visit, **entries):
    return changed(visit, payload={**visit.reply.payload, **entries})


# What a class says of itself


class Nameless(fd.Averaging[None]):
    paper = " "

    def visit(self, client, memory, received, rng):
        net = client.net(received.weights["net"])
        return fd.Visit(fd.trained_reply(client, net, received), None)


class Unfinished(fd.Method[None, None]):
    def weights(self, state):
        return {}


class NoOptions(SmallLoss):
    Options = dict


class PairOptions(SmallLoss.Options):
    pair: tuple[int, int] = (1, 2)


class BadVariants(SmallLoss):
    variants: ClassVar = {
        "default": fd.Variant(""),
        "typo": fd.Variant("an option that there is not", {"mots": 0.5}),
    }


class NoDefaultVariant(SmallLoss):
    variants: ClassVar = {"half": fd.Variant("half", {"most": 0.5})}


class NotForFiles(SmallLoss):
    Options = PairOptions
    variants: ClassVar = {"default": fd.Variant("itself")}


class NoClasses(fd.Averaging):
    summary = "for tests"
    paper = "unpublished"
    visit = Nameless.visit


# What is sent


class OtherKind(SmallLoss):
    def plan(self, state, moment, rng):
        exchange = super().plan(state, moment, rng)
        return exchange and replace(exchange, message=replace(exchange.message, kind="learn"))


class Misdeclared(SmallLoss):
    """Sends what it does not declare."""

    def kinds(self, facts):
        return {"train": replace(super().kinds(facts)["train"], message=())}


class Overdeclared(SmallLoss):
    """Declares what never comes, in two ways."""

    def kinds(self, facts):
        train = super().kinds(facts)["train"]
        rare = {"rare": fd.Declared((), optional=True)}
        return {
            "train": replace(train, reply={**train.reply, **rare}),
            "ask": fd.Kind(models=()),
        }


class Silent(SmallLoss):
    """Declares a number that it does not send."""

    def kinds(self, facts):
        kinds = super().kinds(facts)
        reply = {**kinds["train"].reply, "loss": fd.Declared(())}
        return {"train": replace(kinds["train"], reply=reply)}


class Talkative(SmallLoss):
    """Sends, where it has several samples, a number that it does not declare."""

    def visit(self, client, memory, received, rng):
        visit = super().visit(client, memory, received, rng)
        return visit if len(client) == 1 else with_payload(visit, loss=np.zeros(()))


class PerSample(SmallLoss):
    """Sends a number for each sample, once as it is and once in disguise."""

    def kinds(self, facts):
        kinds = super().kinds(facts)
        reply = {
            **kinds["train"].reply,
            "losses": fd.Declared((None,)),
            "more": fd.Declared((sum(facts.sizes.values()),)),
        }
        return {"train": replace(kinds["train"], reply=reply)}

    def visit(self, client, memory, received, rng):
        visit = super().visit(client, memory, received, rng)
        return with_payload(visit, losses=np.zeros(len(client)), more=np.zeros(97))


# What may not be changed, and where randomness comes from


class Careless(SmallLoss):
    def __init__(self, *parts):
        super().__init__(*parts)
        self.seen = []

    def visit(self, client, memory, received, rng):
        np.random.rand(), random.random(), torch.rand(1)
        self.seen.append(client.id)
        client.samples.given[:] = 0
        visit = super().visit(client, memory, received, rng)
        received.payload["most"] += 1
        return visit


class Forgetful(SmallLoss):
    """Keeps at the server what belongs into the state, and changes the state."""

    turns = 0

    def plan(self, state, moment, rng):
        state.net["fc.bias"] += 0.01
        return super().plan(state, moment, rng)

    def merge(self, state, exchange, replies):
        merged = super().merge(state, exchange, replies)
        self.turns += 1
        return merged


class Hides(SmallLoss):
    """Keeps in the state what no file keeps of it."""

    def plan(self, state, moment, rng):
        exchange = super().plan(state, moment, rng)
        most = {"most": np.array(getattr(state, "hidden", 0.0))}
        return exchange and replace(exchange, message=replace(exchange.message, payload=most))

    def merge(self, state, exchange, replies):
        merged = super().merge(state, exchange, replies)
        object.__setattr__(merged, "hidden", 0.5)
        return merged


@dataclass(frozen=True)
class Counted:
    visits: np.ndarray


class InPlace(fd.Averaging[Counted]):
    """Changes a client's memory and the weights that it received."""

    summary = "for tests"
    paper = "unpublished"

    def visit(self, client, memory, received, rng):
        memory = memory or Counted(np.zeros(1))
        memory.visits[0] += 1
        net = client.net(received.weights["net"])
        reply = fd.trained_reply(client, net, received)
        received.weights["net"]["fc.bias"] += 1
        return fd.Visit(reply, memory)


class Unrepeatable(SmallLoss):
    def visit(self, client, memory, received, rng):
        visit = super().visit(client, memory, received, rng)
        kept = np.random.default_rng().uniform(1, 2)
        return with_payload(visit, kept=np.array(kept))


# What has to be written down


@dataclass(frozen=True)
class SetState:
    net: dict
    sizes: set


class NoTree(fd.Averaging[None]):
    summary = "for tests"
    paper = "unpublished"

    def begin(self, make_model, facts, rng):
        return SetState(make_model("net"), set(facts.sizes))

    def visit(self, client, memory, received, rng):
        raise NotImplementedError


class OtherMemory(SmallLoss):
    """Remembers something although it is derived with no memory."""

    def visit(self, client, memory, received, rng):
        return replace(super().visit(client, memory, received, rng), memory=Counted(np.zeros(1)))


class Illegible(SmallLoss):
    def visit(self, client, memory, received, rng):
        visit = super().visit(client, memory, received, rng)
        return replace(visit, diary={"losses": np.zeros(2)})


class OddDiary(SmallLoss):
    def visit(self, client, memory, received, rng):
        visit = super().visit(client, memory, received, rng)
        return replace(visit, diary={"filter": 0.5})


class IllegibleRecords(SmallLoss):
    def records(self, state):
        return {"sizes": set(state.sizes)}


@dataclass(frozen=True)
class Lone:
    net: dict[str, torch.Tensor]


class NoNewcomers(fd.Method[Lone, None]):
    """Its state has no sizes, and no `joined` of its own."""

    summary = "for tests"
    paper = "unpublished"

    def begin(self, make_model, facts, rng):
        return Lone(make_model("net"))

    def plan(self, state, moment, rng):
        message = fd.Message("train", {"net": state.net})
        return None if moment.exchange else fd.Exchange((1, 3, 5), message)

    def visit(self, client, memory, received, rng):
        net = client.net(received.weights["net"])
        return fd.Visit(fd.trained_reply(client, net, received), None)

    def merge(self, state, exchange, replies):
        mean = fd.mean_of(replies)
        return Lone(mean["net"]) if mean else state

    def weights(self, state):
        return {"net": state.net}

    def kinds(self, facts):
        return {"train": fd.Kind(fd.DIVERGENCE)}


# Clients that are odd, or do not answer


class OneSample(SmallLoss):
    def visit(self, client, memory, received, rng):
        kept = 1 + 1 / (len(client) - 1)
        return with_payload(super().visit(client, memory, received, rng), kept=np.array(kept))


class NotFinite(SmallLoss):
    def visit(self, client, memory, received, rng):
        visit = super().visit(client, memory, received, rng)
        return with_payload(visit, kept=np.array(np.nan)) if client.id == 2 else visit


class Expectant(SmallLoss):
    """Cannot go on where nobody answers."""

    def merge(self, state, exchange, replies):
        return replace(state, net=fd.mean_of(replies)["net"])


class AllOrNothing(SmallLoss):
    """Cannot go on where one is missing."""

    def merge(self, state, exchange, replies):
        merged = super().merge(state, exchange, replies)
        if 0 < len(replies.missing) < len(exchange.clients):
            raise LookupError("somebody is missing")
        return merged


class FirstOnly(SmallLoss):
    def merge(self, state, exchange, replies):
        for reply in replies:
            return replace(state, net=fd.copied(reply.weights)["net"])
        return state


class Keeper(SmallLoss):
    def merge(self, state, exchange, replies):
        models = [reply.weights["net"] for reply in replies]
        return replace(state, net=models[-1]) if models else state


# What comes back


class NoVisit(SmallLoss):
    def visit(self, client, memory, received, rng):
        return super().visit(client, memory, received, rng).reply


class Impostor(SmallLoss):
    def visit(self, client, memory, received, rng):
        return changed(super().visit(client, memory, received, rng), client=1)


class NoExchange(SmallLoss):
    def plan(self, state, moment, rng):
        return tuple(state.sizes)


class Stranger(SmallLoss):
    def plan(self, state, moment, rng):
        exchange = super().plan(state, moment, rng)
        return exchange and replace(exchange, clients=(*exchange.clients, 17))


class Flat(SmallLoss):
    def predict(self, nets, inputs):
        return nets["net"](inputs).argmax(dim=1)


class Opinionated(SmallLoss):
    def assess(self, client, memory, received):
        return replace(super().assess(client, memory, received), p_clean=np.full(len(client), 1.5))


class HalfAnOpinion(SmallLoss):
    def assess(self, client, memory, received):
        return fd.Assessment(np.zeros(3, np.int64))


class Deaf(SmallLoss):
    """Trains in a loop of its own on what it likes, whatever an expert says."""

    def visit(self, client, memory, received, rng):
        net, samples = client.net(received.weights["net"]), client.samples
        rows = torch.arange(len(samples))[::2]
        inputs = samples.augmented(rows, rng.torch("augment"))
        loss = torch.nn.functional.cross_entropy(net.train()(inputs), samples.given[rows])
        loss.backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= self.training.lr * parameter.grad
        net.zero_grad()
        payload = {"kept": np.array(float(len(rows)))}
        return fd.Visit(fd.trained_reply(client, net, received, payload), None)


class Headstrong(SmallLoss):
    """Claims to have corrected a label for good."""

    def assess(self, client, memory, received):
        labels = client.samples.given.numpy().copy()
        labels[0] = (labels[0] + 1) % client.classes
        opinion = super().assess(client, memory, received)
        return replace(opinion, corrected=Corrected(labels, np.ones(len(labels))))
