"""Our messages as Flower's records, and back."""

from dataclasses import replace

import numpy as np
import pytest
import torch

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from feddiv.core.errors import UserError
from feddiv.federation.reply_check import Refused
from feddiv.flower.arrays import write_tensors
from feddiv.flower.records import (
    PACKED,
    SiteTask,
    VisitAddress,
    message_records,
    model_record,
    problem_records,
    read_message,
    read_reply,
    read_task,
    reply_records,
)
from feddiv.methods.contract import Message, Reply

HERE = VisitAddress("ab" * 16, 3, 1, "attempt 2/", 7)
STATE = {
    "weight": torch.randn(2, 3),
    "half": torch.randn(4).half(),
    "count": torch.tensor(5),
    "empty": torch.zeros(0, 2),
}


SENT = Message("train", {"net": STATE})


def sent(records: RecordDict) -> RecordDict:
    proto = recorddict_to_proto(records)
    return recorddict_from_proto(type(proto).FromString(proto.SerializeToString()))


@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        elements=st.floats(allow_nan=True, allow_infinity=True, width=64),
    )
)
def test_every_array_of_a_payload_comes_back_bit_for_bit(array):
    message = Message("train", {}, {"a": array, "b": np.array(1.5)})
    task = SiteTask(HERE, "train", "seed = 1")
    back = read_message(sent(message_records(task, message)), "train").payload
    assert back["a"].shape == array.shape
    assert back["a"].tobytes() == np.ascontiguousarray(array).tobytes()
    assert back["b"] == 1.5


def test_models_and_tasks_come_back():
    task = SiteTask(HERE, "train", "seed = 1", "000002-0000-0", ("000001-0000-0", "000002-0000-0"))
    records = sent(message_records(task, Message("train", {"net": STATE, "net 2": STATE})))
    assert read_task(records) == task
    back = read_message(records, "train").weights
    assert list(back) == ["net", "net 2"]
    for state in back.values():
        assert list(state) == list(STATE)
        for name, tensor in STATE.items():
            assert state[name].dtype == tensor.dtype
            assert torch.equal(state[name], tensor)


def test_a_reply_comes_back_and_names_its_visit():
    reply = Reply(7, 12, {"net": STATE}, {"histogram": np.arange(4.0)}, {"divergence": 0.25})
    back = read_reply(sent(reply_records(HERE, reply)), HERE, SENT)
    assert (back.client, back.samples, back.metrics) == (7, 12, {"divergence": 0.25})
    assert torch.equal(back.weights["net"]["weight"], STATE["weight"])
    assert back.payload["histogram"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"round": 4}, "answers for round 3 instead of 4"),
        ({"exchange": 0}, "answers for exchange 1 instead of 0"),
        ({"part": ""}, "answers for part 'attempt 2/' instead of ''"),
        ({"client": 6, "run": "cd"}, "instead of 'cd', client 7 instead of 6"),
    ],
)
def test_a_reply_to_something_else_is_refused(change, said):
    from dataclasses import replace

    records = sent(reply_records(HERE, Reply(7, 12)))
    with pytest.raises(Refused, match=said):
        read_reply(records, replace(HERE, **change), SENT)


def test_a_problem_is_told_as_it_is():
    with pytest.raises(Refused, match="no room left"):
        read_reply(sent(problem_records("no room left")), HERE, SENT)


def test_versions_of_two_attempts_differ():
    from dataclasses import replace

    names = {replace(HERE, part=part).version for part in ("", "attempt 1/", "attempt 2/")}
    assert names == {"000003-0001-0", "000003-0001-1", "000003-0001-2"}


def numpy_header(kind: str, shape: str) -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    "data",
    [
        b"PK\x03\x04 a zip archive",
        b"",
        numpy_header("<f4", "(35184372088832,)"),
        numpy_header("|O", "(1,)") + b"12345678",
        numpy_header("<f4", "(-1, -1)"),
        b"\x80\x04\x95 a pickle",
    ],
)
@pytest.mark.parametrize("before", [0, 1, 3])
def test_arrays_that_are_none_are_refused(data, before):
    first = write_tensors(list(STATE.values())[:before])
    with pytest.raises(Refused, match=r"record weights\.net cannot be read") as told:
        read_reply(sent(forged(first + data)), HERE, SENT)
    assert f"({list(STATE)[before]} " in str(told.value)


def forged(data: bytes, names: str = "\n".join(STATE)) -> RecordDict:
    records = reply_records(HERE, Reply(7, 12, {"net": STATE}))
    records["weights.net"] = ArrayRecord({names: Array("uint8", (len(data),), PACKED, data)})
    return records


def test_a_model_of_more_or_other_entries_than_its_names_is_refused():
    whole = write_tensors(STATE.values())
    assert len(read_reply(sent(forged(whole)), HERE, SENT).weights["net"]) == len(STATE)
    more = write_tensors([torch.zeros(3)])
    with pytest.raises(Refused, match=f"cannot be read \\({len(more)} bytes too many\\)"):
        read_reply(sent(forged(whole + more)), HERE, SENT)
    with pytest.raises(Refused, match=r"cannot be read \(empty is no array"):
        read_reply(sent(forged(write_tensors(list(STATE.values())[:3]))), HERE, SENT)
    for names in ("weight\nhalf\ncount", "weight\nhalf\ncount\ncount", "", "weight,half\n" * 4):
        with pytest.raises(Refused, match="model net has other entries than were sent"):
            read_reply(sent(forged(whole, names)), HERE, SENT)
    twice = forged(whole)
    twice["weights.net"]["other"] = twice["weights.net"]["\n".join(STATE)]
    with pytest.raises(Refused, match="model net has other entries than were sent"):
        read_reply(sent(twice), HERE, SENT)


def test_entries_may_come_in_another_order():
    turned = dict(reversed(STATE.items()))
    back = read_reply(sent(reply_records(HERE, Reply(7, 12, {"net": turned}))), HERE, SENT).weights
    assert list(back["net"]) == list(turned)
    assert torch.equal(back["net"]["weight"], STATE["weight"])


def test_a_model_is_one_array_whatever_the_order_of_its_memory():
    state = {"turned": torch.randn(3, 4).t(), "true": torch.tensor([True, False])}
    records = sent(message_records(SiteTask(HERE, "train", ""), Message("train", {"net": state})))
    assert len(records["weights.net"]) == 1
    back = read_message(records, "train").weights["net"]
    assert all(torch.equal(back[name], tensor) for name, tensor in state.items())
    assert read_message(sent(reply_records(HERE, Reply(7, 1, {"net": {}}))), "").weights == {
        "net": {}
    }
    with pytest.raises(UserError, match="its name has more than one line"):
        model_record({"a\nb": STATE["half"]})


def test_what_a_site_says_is_cut_and_harmless():
    with pytest.raises(Refused) as told:
        read_reply(sent(problem_records("\x1b[2J" + "x" * 5000)), HERE, SENT)
    assert len(str(told.value)) == 300
    assert "\x1b" not in str(told.value)


def test_every_part_of_a_round_has_a_version_of_its_own() -> None:
    parts = [
        "",
        "again/",
        *(f"attempt {n}/{more}" for n in range(1, 1001) for more in ("", "again/")),
    ]
    versions = [replace(HERE, part=part).version for part in parts]
    assert versions[:3] == ["000003-0001-0", "000003-0001-0-again", "000003-0001-1"]
    assert len(set(versions)) == len(parts) == 2002
    # By one that counted as another a server would get fresh noise for nothing.
    for part in ("attempt 01/", "attempt 1", "attempt 0/", "x1/", "again/attempt 1/", "attempt ١/"):
        with pytest.raises(Refused, match="is no part of a round"):
            _ = replace(HERE, part=part).version
