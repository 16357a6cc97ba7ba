"""corrections.csv: what experts decided about labels; written, read, folded, merged.

`append` adds decisions, `read` reads them strictly, `Review.of` says what they come to.
"""

from feddiv.data.corrections.decision import COLUMNS, KINDS, Decision, DecisionKind, now
from feddiv.data.corrections.file import CORRECTIONS, DecisionFile, append, read
from feddiv.data.corrections.listed import listed_subject
from feddiv.data.corrections.merge import Agreement, agreements, merge_files, merged
from feddiv.data.corrections.review import Conflict, Review
from feddiv.data.corrections.subject import Subject

__all__ = [
    "COLUMNS",
    "CORRECTIONS",
    "KINDS",
    "Agreement",
    "Conflict",
    "Decision",
    "DecisionFile",
    "DecisionKind",
    "Review",
    "Subject",
    "agreements",
    "append",
    "listed_subject",
    "merge_files",
    "merged",
    "now",
    "read",
]
