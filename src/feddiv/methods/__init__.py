"""What a method is made of; all that the author of one needs is here (docs/own-method.md)."""

from feddiv.core.arrays import StateDict, Weights
from feddiv.core.randomness import Streams
from feddiv.learning.average import RunningMean, copied
from feddiv.learning.predict import predict, predict_array
from feddiv.learning.score import label_scores
from feddiv.learning.train import Batch, MixUp, Selection, cross_entropy, everything, train
from feddiv.methods.averaging import Averaging, AveragingState, mean_of
from feddiv.methods.common import DIVERGENCE, copy_of, flagged_diary, trained_reply, warmed_up
from feddiv.methods.contract import (
    Assessment,
    Budget,
    Client,
    Corrected,
    Declared,
    Diary,
    Exchange,
    Facts,
    Kind,
    Message,
    Method,
    MethodOptions,
    Moment,
    Nets,
    Payload,
    Replies,
    Reply,
    Stage,
    Variant,
    Visit,
)

__all__ = [
    "DIVERGENCE",
    "Assessment",
    "Averaging",
    "AveragingState",
    "Batch",
    "Budget",
    "Client",
    "Corrected",
    "Declared",
    "Diary",
    "Exchange",
    "Facts",
    "Kind",
    "Message",
    "Method",
    "MethodOptions",
    "MixUp",
    "Moment",
    "Nets",
    "Payload",
    "Replies",
    "Reply",
    "RunningMean",
    "Selection",
    "Stage",
    "StateDict",
    "Streams",
    "Variant",
    "Visit",
    "Weights",
    "copied",
    "copy_of",
    "cross_entropy",
    "everything",
    "flagged_diary",
    "label_scores",
    "mean_of",
    "predict",
    "predict_array",
    "train",
    "trained_reply",
    "warmed_up",
]
