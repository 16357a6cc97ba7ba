"""What a run costs: time and traffic."""

from typing import Final

from feddiv.reports.record import RunRecord

UNITS: Final = ("B", "kB", "MB", "GB", "TB")


def spent(run: RunRecord) -> tuple[float, float, float]:
    """Seconds, bytes up and bytes down."""
    rounds = sum(
        value or 0 for key in ("seconds", "evaluation_seconds") for value in run.column(key)
    )
    seconds = run.total("seconds")
    up, down = (sum(value or 0 for value in run.column(key)) for key in ("bytes_up", "bytes_down"))
    return rounds if seconds is None else seconds, up, down


def pace(run: RunRecord, seconds: float) -> str:
    """Seconds a round."""
    return f"{seconds / run.spent[-1]:.2g} s a round" if run.spent and run.spent[-1] else ""


def size(count: float) -> str:
    """Bytes in the unit that fits.

    >>> size(0), size(13162640)
    ('0 B', '13.2 MB')
    """
    power = 0
    while count >= 1000 and power < len(UNITS) - 1:
        count, power = count / 1000, power + 1
    return f"{count:.3g} {UNITS[power]}"
