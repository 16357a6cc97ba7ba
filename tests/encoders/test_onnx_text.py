"""Sentence encoders in ONNX files: a tiny graph, whose numbers can be told by hand."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.encoders.words import graph, tokenizer

from feddiv.core.errors import UserError
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.contract import Encoder
from feddiv.encoders.registry import make_encoder


def encoder(file: Path, **choice: Any) -> Encoder:
    return make_encoder(EncoderChoice(str(file), **choice), None)


def test_tokens_are_pooled(tmp_path: Path) -> None:
    tokenizer(tmp_path)
    file = graph(tmp_path / "net.onnx")
    made = encoder(file)
    assert (made.kind, made.choice.pooling, made.width) == ("texts", "mean", 2)
    assert made.encode(["two three", "one"]).tolist() == [[3.5, 35.0], [2.0, 20.0]]
    assert encoder(file, pooling="max").encode(["two three one"]).tolist() == [[4.0, 40.0]]
    assert encoder(file, pooling="first").encode(["two three one"]).tolist() == [[3.0, 30.0]]
    assert made.encode([]).shape == (0, 2)
    again = pickle.loads(pickle.dumps(made))
    assert torch.equal(again.encode(["one two"]), made.encode(["one two"]))


def test_a_vector_of_the_graph_counts(tmp_path: Path) -> None:
    tokenizer(tmp_path)
    file = graph(tmp_path / "net.onnx", vector=True)
    assert encoder(file).encode(["two three"]).tolist() == [[4.0, 40.0]]
    assert encoder(file, pooling="mean").encode(["two three"]).tolist() == [[3.5, 35.0]]


def test_long_texts_are_cut_and_short_ones_padded(tmp_path: Path) -> None:
    tokenizer(tmp_path, longest=2)
    short = encoder(graph(tmp_path / "net.onnx"))
    assert short.encode(["one two three three three"]).tolist() == [[2.5, 25.0]]
    tokenizer(tmp_path)
    fixed = encoder(graph(tmp_path / "net.onnx", length=4))
    assert fixed.encode(["one two"]).tolist() == [[2.5, 25.0]], "padding does not count"
    assert short.fingerprint != fixed.fingerprint


def test_the_hash_is_of_graph_and_tokenizer(tmp_path: Path) -> None:
    tokenizer(tmp_path)
    file = graph(tmp_path / "net.onnx")
    before = encoder(file).sha256
    tokenizer(tmp_path, longest=3)
    assert encoder(file).sha256 != before
    with pytest.raises(UserError, match="its weights are others than those of this run"):
        encoder(file, sha256=before)


def test_what_is_refused(tmp_path: Path) -> None:
    file = graph(tmp_path / "net.onnx", vector=True)
    with pytest.raises(UserError, match=r"takes the tokens of a text, and there is no tokenizer"):
        encoder(file)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match=r"tokenizer.json is no tokenizer \("):
        encoder(file)
    tokenizer(tmp_path)
    with pytest.raises(UserError, match=r"data\.encoder_size=32: is for images"):
        encoder(file, size=32)
    with pytest.raises(UserError, match=r"data\.encoder_views=2: is for images"):
        encoder(file, views=2)
    with pytest.raises(UserError, match="its inputs are pixels; of a text there are input_ids"):
        encoder(graph(tmp_path / "net.onnx", name="pixels"))
