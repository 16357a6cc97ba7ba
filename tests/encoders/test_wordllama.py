"""WordLlama's numbers, from the files of its package."""

import builtins
import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from feddiv.core.errors import UserError
from feddiv.encoders.contract import Encoder, EncoderChoice
from feddiv.encoders.registry import make_encoder
from feddiv.encoders.wordllama import BLOCK, TABLE, TOKENIZER, WordLlama, make

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "motor",
    "Grüße aus Köln, 三 and a \N{ROBOT FACE}\nin two lines",
    "a " * 3000,
]


@pytest.fixture(scope="module")
def package() -> Path:
    spec = importlib.util.find_spec("wordllama")
    if spec is None or importlib.util.find_spec("tokenizers") is None:
        pytest.skip("no wordllama or no tokenizers, the extra encoders")
    return Path((spec.submodule_search_locations or [""])[0])


@pytest.fixture(scope="module")
def encoder(package: Path) -> Encoder:
    return make_encoder(EncoderChoice("wordllama"), None)


def test_the_numbers_are_those_of_wordllama(package: Path, encoder: Encoder) -> None:
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer
    from wordllama.inference import WordLlamaInference

    table = load_file(package / TABLE)["embedding.weight"]
    theirs = WordLlamaInference(table, Tokenizer.from_file(str(package / TOKENIZER)))
    ours = encoder.encode(TEXTS)
    assert ours.shape == (4, encoder.width) == (4, 256)
    assert ours.dtype == torch.float32
    np.testing.assert_allclose(ours.numpy(), theirs.embed(TEXTS), rtol=1e-5, atol=1e-6)


def test_a_text_is_encoded_by_itself(encoder: Encoder) -> None:
    together = encoder.encode(TEXTS)
    for row, text in enumerate(TEXTS):
        assert torch.equal(encoder.encode([text])[0], together[row])
    assert torch.equal(encoder.encode([""]), torch.zeros(1, 256))
    assert encoder.encode([]).shape == (0, 256)


def test_a_long_text_takes_little_memory_and_has_the_same_bits(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(encoder, WordLlama)
    looked_up: list[int] = []

    class Counted:
        """The table, which notes how many tokens are looked up at a time."""

        def __getitem__(self, tokens: list[int]) -> Any:
            looked_up.append(len(tokens))
            return table[tokens]

    table = encoder._table
    tokens = [number * 31 % len(table) for number in range(3 * BLOCK + 5)]
    monkeypatch.setattr(encoder, "_table", Counted())
    for count in (1, 2, 9, 130, BLOCK, BLOCK + 1, len(tokens)):
        wanted = table[tokens[:count]].mean(axis=0, dtype=np.float32)
        assert np.array_equal(encoder._mean(tokens[:count]), wanted)
    assert max(looked_up) == BLOCK


def test_similar_texts_are_near(encoder: Encoder) -> None:
    car, truck, prayer = torch.nn.functional.normalize(
        encoder.encode(["the engine of my car", "a truck with a motor", "god and prayer"])
    )
    assert car @ truck > car @ prayer + 0.1


def test_the_hash_is_of_table_and_tokenizer(
    package: Path, encoder: Encoder, tmp_path: Path
) -> None:
    for name in (TABLE, TOKENIZER):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(package / name, tmp_path / name)
    assert WordLlama(EncoderChoice("wordllama"), tmp_path).sha256 == encoder.sha256
    tokenizer = tmp_path / TOKENIZER
    tokenizer.write_bytes(tokenizer.read_bytes() + b"\n")
    assert WordLlama(EncoderChoice("wordllama"), tmp_path).sha256 != encoder.sha256
    tokenizer.write_text("{}")
    with pytest.raises(UserError, match=r"data.encoder=wordllama: .* is no tokenizer"):
        WordLlama(EncoderChoice("wordllama"), tmp_path)
    tokenizer.unlink()
    with pytest.raises(UserError, match="cannot be read"):
        WordLlama(EncoderChoice("wordllama"), tmp_path)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, package: Path) -> None:
    make.cache_clear()
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "tokenizers":
            raise ImportError(name)
        return real(name, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", missing)
        with pytest.raises(UserError, match=r"needs the package tokenizers; pip install 'feddiv\["):
            make_encoder(EncoderChoice("wordllama"), None)
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)
    importlib.invalidate_caches()
    with pytest.raises(UserError, match=r"needs the package wordllama; pip install 'feddiv\[enc"):
        make_encoder(EncoderChoice("wordllama"), None)


def test_other_pooling_is_refused(package: Path) -> None:
    with pytest.raises(UserError, match="encoder_pooling=max: wordllama is the mean"):
        make_encoder(EncoderChoice("wordllama", pooling="max"), None)
