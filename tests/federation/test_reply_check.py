import numpy as np
import pytest
import torch

from feddiv.federation.reply_check import Refused, check_reply
from feddiv.federation.traffic import message_bytes, reply_bytes
from feddiv.methods.contract import Declared, Kind, Message, Reply

DECLARED = {
    "histogram": Declared((3,), low=-5, high=5),
    "tally": Declared((), optional=True),
    "divergence": Declared((), low=0.0, metric=True),
    "accuracy": Declared((), optional=True, metric=True),
}
NET = {"weight": torch.zeros(2, 3), "steps": torch.tensor(4)}
SENT = Message("train", {"net": NET}, {"bias": np.zeros(3)})
FINE = {
    "weights": {"net": {"weight": torch.ones(2, 3), "steps": torch.tensor(5)}},
    "payload": {"histogram": np.array([-5.0, 0.0, 5.0])},
    "metrics": {"divergence": 0.0},
}


def check(samples: int = 7, **changed: object) -> None:
    reply = Reply(client=1, samples=samples, **{**FINE, **changed})
    check_reply(reply, Kind(DECLARED), SENT, size=7)


def test_what_was_declared_passes_up_to_its_bounds() -> None:
    check()
    check(payload={**FINE["payload"], "tally": np.array(3.0)})
    check(metrics={"divergence": 2.0, "accuracy": 0.5})


def test_a_reply_of_somebody_who_did_not_train_has_no_weights() -> None:
    asked = Kind({"loss": Declared((), metric=True)}, models=())
    check_reply(Reply(1, 7, metrics={"loss": 0.5}), asked, SENT, size=7)
    trained = Reply(1, 7, FINE["weights"], metrics={"loss": 0.5})
    with pytest.raises(Refused, match=r"holds the models \['net'\] where \[\] were asked for"):
        check_reply(trained, asked, SENT, size=7)


def test_of_several_models_all_have_to_come_back() -> None:
    both = Kind(models=("a", "b"))
    pair = Message("train", {"a": NET, "b": NET, "neighbour": NET})
    check_reply(Reply(1, 7, {"a": NET, "b": NET}), both, pair, size=7)
    for other in ({"a": NET}, {"a": NET, "b": NET, "neighbour": NET}):
        with pytest.raises(Refused, match=r"where \['a', 'b'\] were asked for"):
            check_reply(Reply(1, 7, other), both, pair, size=7)


def net(**entries: torch.Tensor) -> dict:
    return {"net": {**FINE["weights"]["net"], **entries}}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"samples": 8}, "says it has 8 samples, said 7 at the start"),
        ({"weights": None}, r"holds the models \[\] where \['net'\] were asked for"),
        ({"weights": {}}, r"holds the models \[\] where \['net'\] were asked for"),
        ({"payload": {}}, "histogram is missing"),
        ({"metrics": {}}, "divergence is missing"),
        ({"payload": {}, "metrics": {"divergence": 0.0, "histogram": 0.0}}, "histogram was not"),
        ({"payload": {**FINE["payload"], "divergence": np.array(0.0)}}, "divergence was not"),
        ({"metrics": {"divergence": "far"}}, "divergence is not numeric"),
        ({"payload": {"labels": np.zeros(3)}}, "labels was not declared"),
        ({"metrics": {"speed": 0.5}}, "speed was not declared"),
        ({"payload": {"histogram": np.zeros(4)}}, r"histogram has shape \(4,\), declared \(3,\)"),
        ({"payload": {"histogram": np.float64(0)}}, r"histogram has shape \(\)"),
        ({"metrics": {"divergence": np.zeros(1)}}, "divergence has shape"),
        ({"payload": {"histogram": np.array([0, np.nan, 0])}}, "histogram is not finite"),
        ({"metrics": {"divergence": np.inf}}, "divergence is not finite"),
        ({"payload": {"histogram": np.array([0, 0, 5.01])}}, r"outside \[-5, 5\]"),
        ({"payload": {"histogram": np.array([-6.0, 0, 0])}}, r"outside \[-5, 5\]"),
        ({"metrics": {"divergence": -1e-9}}, r"divergence is outside \[0.0, inf\]"),
        ({"weights": {"other": {}}}, r"models \['other'\] where \['net'\] were asked for"),
        ({"weights": {"net": {"weight": torch.ones(2, 3)}}}, "has other entries than were sent"),
        ({"weights": net(more=torch.ones(1))}, "has other entries than were sent"),
        ({"weights": net(weight=torch.ones(3, 2))}, r"net.weight has shape \(3, 2\)"),
        ({"weights": net(weight=torch.full((2, 3), torch.nan))}, "net.weight is not finite"),
    ],
)
def test_refused(changed: dict, message: str) -> None:
    with pytest.raises(Refused, match=message):
        check(**changed)


def test_bytes_by_hand() -> None:
    # Down: 6 float32 and one int64 are 32 bytes, 3 float64 are 24.
    assert message_bytes(SENT) == 32 + 24
    assert message_bytes(Message("ask")) == 0
    # Up: the same weights, 3 float64, and 8 each for n_k and the divergence.
    assert reply_bytes(Reply(1, 7, **FINE)) == 32 + 24 + 16
    assert reply_bytes(Reply(1, 7)) == 8
