"""What a trial of a method has found, in words."""


class NotConformant(AssertionError):
    """A method does not keep to the contract; `findings` has one sentence on each reason."""

    def __init__(self, name: str, findings: list[str]) -> None:
        self.name, self.findings = name, findings
        super().__init__(
            "\n- ".join([f"{name} does not keep to the contract of methods:", *findings])
        )


class TrialOver(BaseException):
    """A trial that cannot go on, whatever a method catches; the reason is among the findings."""


class Findings:
    """Sentences, each once: a mistake shows at many clients and in every round."""

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = {}
        self.cause: Exception | None = None  # the first exception that a method raised
        self.circumstance = ""  # under which findings show from now on

    def add(self, finding: str, place: str = "") -> None:
        """A finding, and where it showed."""
        if self.circumstance and finding in self._places:
            return  # it shows without it
        self._places.setdefault(self.circumstance + finding, []).append(place)

    def failed(self, what: str, problem: Exception, place: str = "") -> TrialOver:
        """The finding that something raised an exception."""
        self.cause = self.cause or problem
        said = str(problem).strip().splitlines()
        self.add(": ".join([f"{what} fails", type(problem).__name__, *said[:1]]), place)
        return TrialOver()

    def __bool__(self) -> bool:
        return bool(self._places)

    def lines(self) -> list[str]:
        """One line on each, with the first place where it showed."""
        return [
            finding + (f" ({places[0]}{_more(len(places) - 1)})" if places[0] else "")
            for finding, places in self._places.items()
        ]


def _more(count: int) -> str:
    return f", and {count} more" if count else ""
