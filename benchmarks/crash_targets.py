"""What `crash.py` can crash: how it is begun and taken up again, and what has to come out of it.

A new part of feddiv that writes files and can be taken up again gets an entry in `TARGETS`.
"""

from crash_contract import Target
from crash_download import DownloadTarget
from crash_encoding import EncodingTarget
from crash_review import ReviewTarget
from crash_run import RunTarget
from crash_sweep import SweepTarget

TARGETS: dict[str, Target] = {
    "run": RunTarget("against=[]", "checkpoint.seconds=0"),
    "run, two workers": RunTarget("against=[]", "checkpoint.seconds=0.2", workers=2),
    "run with `against`": RunTarget("against=fedavg", "checkpoint.seconds=0.2"),
    "data get": DownloadTarget(),
    "encoding": EncodingTarget(),
    "sweep": SweepTarget(),
    "review": ReviewTarget(),
}
