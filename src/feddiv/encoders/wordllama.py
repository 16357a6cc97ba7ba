"""WordLlama (Miller 2024): the mean of a text's token vectors, 256 numbers from one table.

Table and tokenizer ship inside the wheel of the package `wordllama` (MIT). Its own loader looks
for one of the two in a wrong folder and goes to the network for it, so both files are read here;
the numbers are those of its `embed` (`norm=False`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.errors import UserError
from feddiv.core.files import Unreadable, load_tensors
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.contract import Encoder
from feddiv.encoders.texts import completed
from feddiv.encoders.tokens import EXTRA, read_tokenizer, tokenizer_bytes

NAME: Final = "wordllama"
TABLE: Final = "weights/l2_supercat_256.safetensors"
TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"

BLOCK: Final = 4096  # tokens whose vectors are looked up at a time: 4 MB


class WordLlama(Encoder):
    """Token vectors, averaged; a text's length and the other texts of a batch play no part."""

    kind = "texts"
    batch = 32
    usual_scale = (0.0, 0.08)  # of news postings

    def __init__(self, choice: EncoderChoice, folder: Path) -> None:
        file = folder / TOKENIZER
        tokens = tokenizer_bytes(file, NAME)
        self._tokenizer = read_tokenizer(tokens, NAME, file)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._table = _table(folder / TABLE)
        self.width = self._table.shape[1]
        learned = hashlib.sha256(tokens)
        learned.update(self._table.tobytes())
        self.choice = completed(choice, sha256=learned.hexdigest(), pooling="mean")

    def encode(self, samples: Sequence[str]) -> torch.Tensor:
        """float32 [n, 256]; zeros for a text without a token."""
        vectors = np.zeros((len(samples), self.width), dtype=np.float32)
        for row, text in enumerate(samples):
            # One by one: encode_batch starts threads of its own.
            tokens = self._tokenizer.encode(text, add_special_tokens=False).ids
            if tokens:
                vectors[row] = self._mean(tokens)
        return torch.from_numpy(vectors)

    def _mean(self, tokens: list[int]) -> npt.NDArray[np.float32]:
        """Of their vectors, added up one after the other: blocks do not show in the bits."""
        total = np.zeros(self.width, dtype=np.float32)
        for start in range(0, len(tokens), BLOCK):
            block = self._table[tokens[start : start + BLOCK]]
            block[0] += total
            total = block.sum(axis=0)
        mean: npt.NDArray[np.float32] = total / np.float32(len(tokens))
        return mean


def _table(file: Path) -> npt.NDArray[np.float32]:
    try:
        tensors, _ = load_tensors(file)
        return np.ascontiguousarray(tensors["embedding.weight"].float().numpy())
    except (Unreadable, KeyError) as problem:
        raise UserError(f"data.encoder={NAME}: {file} holds no table ({problem})") from None


@lru_cache(maxsize=1)  # a site asks for it again with every message
def make(choice: EncoderChoice, side: int | None) -> Encoder:
    """The encoder from the installed package, which is not imported."""
    package = find_spec("wordllama")
    if package is None or not package.submodule_search_locations:
        raise UserError(f"data.encoder={NAME}: needs the package wordllama; {EXTRA}")
    if choice.pooling not in (None, "mean"):
        raise UserError(
            f"data.encoder_pooling={choice.pooling}: {NAME} is the mean of token vectors"
        )
    return WordLlama(choice, Path(package.submodule_search_locations[0]))
