"""Decisions of a few people about a few samples."""

from feddiv.data.corrections import Decision, DecisionKind, Subject

PETS = Subject.of(
    ["a.png", "b.png", "c.png", "=1+2.png"], ["cat", "dog", "cat", "dog"], ["cat", "dog", "-eel"]
)
GIVEN = dict(PETS.samples.values())


def decided(sample, kind, label="", reviewer="ann", second=0):
    """A decision, one second after the other."""
    if kind == "confirm":
        label = GIVEN[sample]
    time = f"2026-01-02T03:{second // 60:02d}:{second % 60:02d}.000000Z"
    return Decision(sample, GIVEN[sample], DecisionKind(kind), label, reviewer, time)
