"""What `check_method` says of methods with a mistake: most are the tutorial's method, changed."""

from typing import Any

import pytest
from examples.own_method.small_loss import SmallLoss
from tests.testing import broken

from feddiv.testing import NotConformant, check_method


def findings(method: Any, options: dict[str, Any] | None = None) -> list[str]:
    with pytest.raises(NotConformant) as told:
        check_method(method, options)
    heading = f"{told.value.name} does not keep to the contract of methods:"
    assert str(told.value) == "\n- ".join([heading, *told.value.findings])
    return told.value.findings


@pytest.mark.slow
def test_the_tutorial_s_method_keeps_to_the_contract() -> None:
    check_method(SmallLoss)
    check_method(SmallLoss, {"variant": "half", "start": 0.5})


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        (3, "is of type int and no class"),
        (broken.PairOptions, "PairOptions is no method: derive it from feddiv.methods.Method"),
        (
            broken.Unfinished,
            "Unfinished leaves out begin(), kinds(), merge(), plan(), visit(), which it has to "
            "define",
        ),
        (
            broken.NoOptions,
            "NoOptions.Options is no class derived from feddiv.methods.MethodOptions",
        ),
    ],
)
def test_what_is_no_method(thing: Any, said: str) -> None:
    assert findings(thing) == [said]


def test_a_class_that_nobody_else_could_import() -> None:
    class Hidden(SmallLoss):
        pass

    (said,) = findings(Hidden)
    assert said.startswith("cannot be imported, as it has to be at the top level of a module: ")


def test_options_that_there_are_not() -> None:
    assert findings(SmallLoss, {"mots": 0.5})[-1] == (
        "it cannot be chosen: method.mots is an unknown key (did you mean method.most?); allowed "
        "here: name, variant, most, start"
    )


READ_BACK = "which the method is derived with (Method[State, Memory], Averaging[Memory])"
ONLY_NEW = "it may only return something new"
LOST = "which is lost in a worker and after a resume: what lasts belongs into"
ONE = "client 0, which has one sample"
NOTHING_PER_SAMPLE = "nothing per sample may leave"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "said"),
    [
        (
            broken.Nameless,
            [
                "summary is missing: one line on what it does, for `feddiv list methods`",
                'paper is missing: where it is published, or "unpublished"',
            ],
        ),
        (
            broken.BadVariants,
            [
                "variant 'default': its summary is missing",
                "variant 'typo': method.mots is an unknown key (did you mean method.most?); "
                "allowed here: name, variant, most, start",
            ],
        ),
        (
            broken.NoDefaultVariant,
            [
                "it cannot be chosen: method.variant: 'default' is unknown; "
                "tests.testing.broken:NoDefaultVariant has half",
            ],
        ),
        (
            broken.NotForFiles,
            [
                "variant 'default': method.pair=[1, 2]: Input should be a valid tuple",
                "going on with a run that was stopped fails: UserError: method.pair=[1, 2]: Input "
                "should be a valid tuple",
            ],
        ),
        (
            broken.NoClasses,
            [
                "the class of its memory is missing: derive it from Method[State, Memory] or from "
                "Averaging[Memory], with None for no memory",
            ],
        ),
        (
            broken.OtherKind,
            [
                "the run ends: method.name=tests.testing.broken:OtherKind: plans an exchange of "
                "kind 'learn', and kinds() declares train",
            ],
        ),
        (
            broken.Misdeclared,
            [
                "plan sends 'most' in messages of kind 'train', where kinds() declares nothing "
                "(Kind(message=...))",
            ],
        ),
        (
            broken.Overdeclared,
            [
                "kinds() declares 'rare' in replies to 'train', and none has it",
                "kinds() declares 'ask', and plan sent none in 8 rounds",
            ],
        ),
        (
            broken.Silent,
            [
                "a reply to 'train' is refused: loss is missing, which kinds() declares ",
            ],
        ),
        (
            broken.PerSample,
            [
                "'more' in replies to 'train' is declared with shape (35,) for clients of 7 "
                f"samples and (3500,) for 700: {NOTHING_PER_SAMPLE} a client",
                "'losses' in replies to 'train' has a shape that depends on how many samples a "
                "client has ((1,) for 1, (2,) for 2, (20,) for 20, (24,) for 24, (30,) for 30): "
                f"{NOTHING_PER_SAMPLE} it",
            ],
        ),
        (
            broken.Careless,
            [
                "visit draws from or seeds torch's global generator: use generator=rng.torch"
                '("purpose"), or `with rng.seeded("purpose"):` ',
                "visit draws from or seeds numpy's global generator (np.random): use "
                'rng.numpy("purpose") ',
                "visit draws from or seeds Python's global generator (random): use "
                'rng.numpy("purpose") ',
                f"visit changes the received payload: {ONLY_NEW} ",
                f"visit changes client.samples.given: {ONLY_NEW} ",
                f"visit changes self.seen, {LOST} the client's memory",
            ],
        ),
        (
            broken.Forgetful,
            [
                f"plan changes the state: {ONLY_NEW}",
                f"merge changes self.turns, {LOST} the state",
            ],
        ),
        (
            broken.Hides,
            [
                "after a stop and a resume round 4 is another than in one process without a stop",
                "what `plan` and `merge` need later belongs into the state",
            ],
        ),
        (
            broken.InPlace,
            [
                f"visit changes the received weights: {ONLY_NEW} ",
                f"visit changes the client's memory: {ONLY_NEW}",
            ],
        ),
        (
            broken.Unrepeatable,
            [
                "with 2 workers round 1 is another than in one process without a stop",
                "draws come from `rng` alone, and what lasts belongs into the state and the memory",
            ],
        ),
        (
            broken.NoTree,
            ["begin: the state cannot be written down: sizes: a set cannot be written down"],
        ),
        (
            broken.OtherMemory,
            [f"visit: the memory is a Counted that cannot be read back as NoneType, {READ_BACK}: "],
        ),
        (
            broken.Illegible,
            [
                "visit: 'losses' is a ndarray, and a record holds plain numbers, texts and lists ",
            ],
        ),
        (
            broken.OddDiary,
            ["recording visit's diary, whose keys feddiv.runs.journal explains, fails: TypeError"],
        ),
        (
            broken.IllegibleRecords,
            ["records: 'sizes' is a set, and a record holds plain numbers, texts and lists"],
        ),
        (
            broken.NoNewcomers,
            [
                "joined (the default is for states that are dataclasses with a field `sizes`) "
                "fails: AttributeError: 'Lone' object has no attribute 'sizes'",
            ],
        ),
        (broken.OneSample, [f"visit fails: ZeroDivisionError: division by zero ({ONE})"]),
        (
            broken.NotFinite,
            [
                "a reply to 'train' is refused: kept is not finite (client 2, which has samples of "
                "one class only",
            ],
        ),
        (
            broken.Expectant,
            [
                "merge, where nobody answers to 'train', fails: TypeError: 'NoneType' object is "
                "not subscriptable",
            ],
        ),
        (
            broken.AllOrNothing,
            ["where replies are lost, merge fails: LookupError: somebody is missing"],
        ),
        (
            broken.FirstOnly,
            [
                "merge stops before the last reply: iterate over `replies` to its end, as clients "
                "work while their replies are taken",
            ],
        ),
        (
            broken.Keeper,
            [
                "merge keeps weights of a reply, which are only lent and change when the next one "
                "is taken: keep a copy, feddiv.methods.copied(reply.weights)",
            ],
        ),
        (broken.NoVisit, ["visit has to return a Visit with a Reply in it"]),
        (
            broken.Impostor,
            ["visit replies as another client: Reply.client is client.id"],
        ),
        (broken.NoExchange, ["plan returns a tuple, not an Exchange or None"]),
        (broken.Stranger, ["plan asks client 17, which never said hello"]),
        (broken.Flat, ["predict gives shape (8,) for inputs that want (8, 3)"]),
        (
            broken.Opinionated,
            [f"assess: p_clean has to lie between 0 and 1 ({ONE}, and 5 more)"],
        ),
        (
            broken.HalfAnOpinion,
            [f"assess: predicted has to have one entry for each of the client's samples ({ONE})"],
        ),
    ],
)
def test_each_mistake_is_named(method: Any, said: list[str]) -> None:
    told = "\n".join(findings(method))
    assert all(line in told for line in said), told


@pytest.mark.slow
def test_a_reply_that_says_more_than_is_declared_is_named_with_its_clients() -> None:
    (said,) = findings(broken.Talkative)
    assert said == (
        "a reply to 'train' is refused: loss was not declared (client 2, which has samples of one "
        "class only, and 4 more)"
    )


@pytest.mark.slow
def test_labels_that_experts_vouch_for_are_kept() -> None:
    (said,) = findings(broken.Deaf)
    assert said.startswith(
        "where an expert vouches for labels, visit trains on samples and leaves out some whose "
        "labels it has to trust: client.samples.trusted says which"
    )
    (said,) = findings(broken.Headstrong)
    assert said.startswith(
        "where an expert vouches for labels, assess: labels that it has to trust "
        "(client.samples.trusted) were changed"
    )


def test_the_exception_of_a_method_is_the_cause() -> None:
    with pytest.raises(NotConformant) as told:
        check_method(broken.OneSample)
    assert isinstance(told.value.__cause__, ZeroDivisionError)
