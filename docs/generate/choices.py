"""What there is to choose from, as `feddiv list` prints it."""

from docs.generate.tables import table

from feddiv.cli.choices import LISTS

KEYS = {
    "methods": "`method.name` and `against`",
    "datasets": "`data.source`",
    "partitions": "`partition.name`",
    "noise": "`noise.name`",
    "models": "`model.name`",
    "encoders": "`data.encoder`",
    "presets": "the first argument of `feddiv run`, and `base` in a TOML file",
}


def as_markdown() -> str:
    """A table for each kind of thing."""
    return "\n\n".join(
        f"## {kind}\n\nFor {KEYS[kind]}.\n\n"
        + table(["name", "what it is"], ([f"`{name}`", line] for name, line in rows().items()))
        for kind, rows in LISTS.items()
    )
