"""Every parser that sees foreign bytes gets bytes that nobody meant: derandomized, few by default.

`make test` takes some examples of each, `make test-all` many more of the same.
"""

import os

from hypothesis import HealthCheck, settings

EXAMPLES = {"few": 40, "many": 1500}


def fuzzed(how: str) -> settings:
    """How many examples, and the same ones every time."""
    return settings(
        max_examples=int(os.environ.get("FEDDIV_FUZZ", EXAMPLES[how])),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
