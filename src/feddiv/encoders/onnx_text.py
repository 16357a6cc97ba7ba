"""A sentence encoder in an ONNX file, with the tokenizer.json that lies beside it."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from feddiv.core.errors import UserError
from feddiv.core.given_files import at_home
from feddiv.encoders.choice import EncoderChoice, Pooling
from feddiv.encoders.onnx_session import OnnxGraph
from feddiv.encoders.texts import TextEncoder, completed
from feddiv.encoders.tokens import read_tokenizer, tokenizer_bytes

BESIDE: Final = "tokenizer.json"
MOST_TOKENS: Final = 512  # of a text, where neither tokenizer nor graph say
# What a graph may ask for, and what the tokenizer calls it.
INPUTS: Final = {
    "input_ids": "ids",
    "attention_mask": "attention_mask",
    "token_type_ids": "type_ids",
}


class OnnxTextEncoder(TextEncoder):
    """A graph of tokens; the first output that is a vector counts, else tokens' vectors are pooled.

    Longer texts are cut, by the rule that the tokenizer's file has.
    """

    def __init__(self, choice: EncoderChoice, graph: OnnxGraph, tokenizer: Any) -> None:
        super().__init__(choice)
        self._graph, self._tokenizer = graph, tokenizer
        self._asked = {each.name: _dtype(each.type) for each in graph.inputs}
        self._output = _output(graph, choice)
        fixed, said = _fixed_length(graph), tokenizer.truncation or {}
        self._tokens = fixed or said.get("max_length", MOST_TOKENS)
        tokenizer.enable_truncation(self._tokens)
        if fixed is None:
            tokenizer.no_padding()
        else:
            usual = {key: (tokenizer.padding or {}).get(key) for key in ("pad_id", "pad_token")}
            known = {key: value for key, value in usual.items() if value is not None}
            tokenizer.enable_padding(length=fixed, **known)

    @property
    def rules(self) -> str:
        """Also how many tokens are looked at."""
        return f"{super().rules} {self._tokens}"

    def vector(self, text: str) -> torch.Tensor:
        """The graph's own vector, or its tokens' vectors as one."""
        tokens = self._tokenizer.encode(text)
        inputs = {
            name: np.array([getattr(tokens, INPUTS[name])], dtype=dtype)
            for name, dtype in self._asked.items()
        }
        (output,) = self._graph.session.run([self._output], inputs)
        found = torch.from_numpy(np.asarray(output))
        if found.dim() == 2 and len(found) == 1:
            return found[0]
        if found.dim() != 3 or found.shape[:2] != (1, len(tokens.ids)):
            raise UserError(
                f"data.encoder={self.choice.name} gives shape {tuple(found.shape)} for a text of "
                f"{len(tokens.ids)} tokens; wanted is a vector (1, D), or one for each token"
            )
        real = found[0, torch.tensor(tokens.attention_mask, dtype=torch.bool)]
        match self.choice.pooling:
            case "first":
                return real[0]
            case "max":
                return real.amax(0)
            case _:
                return real.mean(0)


def of_texts(choice: EncoderChoice, graph: OnnxGraph) -> TextEncoder:
    """The encoder of texts of a graph that takes tokens."""
    asked = [each.name for each in graph.inputs]
    unknown = [name for name in asked if name not in INPUTS]
    if unknown or "input_ids" not in asked:
        raise UserError(
            f"data.encoder={choice.name}: its inputs are {', '.join(asked)}; of a text there are "
            f"{', '.join(INPUTS)}"
        )
    file = at_home(choice.name).parent / BESIDE
    if not file.exists():
        raise UserError(
            f"data.encoder={choice.name}: takes the tokens of a text, and there is no {BESIDE} "
            "beside it: put the tokenizer's file there"
        )
    tokens = tokenizer_bytes(file, choice.name)
    learned = hashlib.sha256(graph.content)
    learned.update(tokens)
    vectors = any(len(each.shape) == 2 for each in graph.session.get_outputs())
    usual: Pooling | None = None if vectors else "mean"
    full = completed(choice, sha256=learned.hexdigest(), pooling=usual)
    return OnnxTextEncoder(full, graph, read_tokenizer(tokens, choice.name, file))


def _output(graph: OnnxGraph, choice: EncoderChoice) -> str:
    """The first output that is a vector for each text; with pooling, the first with more."""
    rank = 2 if choice.pooling is None else 3
    outputs = graph.session.get_outputs()
    fits = [each.name for each in outputs if len(each.shape) == rank]
    if not fits:
        raise UserError(
            f"data.encoder_pooling={choice.pooling}: data.encoder={choice.name} gives one vector "
            "for a text already; leave it out"
        )
    name: str = fits[0]
    return name


def _fixed_length(graph: OnnxGraph) -> int | None:
    """How many tokens the graph takes, None where it takes any number."""
    length = graph.inputs[0].shape[-1]
    return length if isinstance(length, int) else None


def _dtype(kind: str) -> npt.DTypeLike:
    return np.int64 if kind == "tensor(int64)" else np.int32
