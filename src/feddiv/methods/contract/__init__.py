"""The contract between a method and whoever runs it.

A method is two halves and no loop of its own: what the server does (`begin`, `plan`, `merge`) and
what a client does (`visit`, `assess`). The round loop and the federations know methods only
through this package.
"""

from feddiv.methods.contract.assessment import Assessment, Corrected
from feddiv.methods.contract.budget import Budget, Facts, Moment, Stage
from feddiv.methods.contract.client import Client
from feddiv.methods.contract.declarations import Declared, Kind
from feddiv.methods.contract.messages import (
    Diary,
    Exchange,
    M,
    Message,
    Payload,
    Replies,
    Reply,
    Visit,
)
from feddiv.methods.contract.method import Method, Nets, S, declared_kind
from feddiv.methods.contract.options import MethodOptions, Variant

__all__ = [
    "Assessment",
    "Budget",
    "Client",
    "Corrected",
    "Declared",
    "Diary",
    "Exchange",
    "Facts",
    "Kind",
    "M",
    "Message",
    "Method",
    "MethodOptions",
    "Moment",
    "Nets",
    "Payload",
    "Replies",
    "Reply",
    "S",
    "Stage",
    "Variant",
    "Visit",
    "declared_kind",
]
