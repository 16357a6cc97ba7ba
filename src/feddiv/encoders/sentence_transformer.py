"""Encoders of the package sentence-transformers, where it is installed.

"sentence-transformers:NAME", NAME being one on the hub or a folder.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import torch

from feddiv.core.errors import UserError, in_one_line
from feddiv.core.files import tensors_hash
from feddiv.core.import_path import check_allowed
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.contract import Encoder
from feddiv.encoders.texts import TextEncoder, completed

PREFIX: Final = "sentence-transformers:"


class SentenceEncoder(TextEncoder):
    """The package's own tokens, pooling and normalising."""

    def __init__(self, choice: EncoderChoice, model: Any) -> None:
        super().__init__(choice)
        self._model = model

    def vector(self, text: str) -> torch.Tensor:
        """What the model says of one text."""
        found = self._model.encode(
            text, convert_to_tensor=True, show_progress_bar=False, device="cpu"
        )
        return torch.as_tensor(found)


def make(choice: EncoderChoice, side: int | None) -> Encoder:
    """The model as the package loads it; no code of the model's own is run."""
    check_allowed("data.encoder", choice.name)  # it may fetch the weights
    if choice.pooling is not None:
        raise UserError(
            f"data.encoder_pooling={choice.pooling}: data.encoder={choice.name} has pooling of its "
            "own; leave it out"
        )
    try:
        from sentence_transformers import SentenceTransformer
    except Exception as problem:  # what it needs may not fit torch
        raise UserError(
            f"data.encoder={choice.name}: sentence-transformers cannot be imported "
            f"({in_one_line(problem)}); install it"
        ) from None
    try:
        model = SentenceTransformer(
            choice.name.removeprefix(PREFIX), device="cpu", trust_remote_code=False
        ).eval()
    except Exception as problem:  # of the network, the hub, the files
        raise UserError(
            f"data.encoder={choice.name}: cannot be loaded ({in_one_line(problem)[:200]})"
        ) from None
    learned = hashlib.sha256(tensors_hash(model.state_dict()).encode())
    # Words and modules: the weights do not say how a text becomes tokens, or a vector.
    learned.update(repr(sorted(model.tokenizer.get_vocab().items())).encode())
    learned.update(f"{model} {model.max_seq_length}".encode())
    return SentenceEncoder(completed(choice, sha256=learned.hexdigest()), model)
