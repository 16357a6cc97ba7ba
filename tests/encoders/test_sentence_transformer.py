"""sentence-transformers: a tiny model, made here; nothing is downloaded."""

import importlib.util
from pathlib import Path

import pytest
import torch

from feddiv.core.errors import UserError
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.registry import make_encoder


@pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is not None, reason="it is installed"
)
def test_without_the_package() -> None:
    with pytest.raises(
        UserError, match=r"sentence-transformers cannot be imported \(.*\); install"
    ):
        make_encoder(EncoderChoice("sentence-transformers:some/model"), None)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with random weights, and ten words."""
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("bert")
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "one", "two", "three"]
    (folder / "vocab.txt").write_text("\n".join(names))
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=len(names), intermediate_size=16, **sizes)
    transformers.BertModel(config).save_pretrained(folder / "net")
    words = transformers.BertTokenizerFast(vocab_file=str(folder / "vocab.txt"))
    words.save_pretrained(folder / "net")
    return folder / "net"  # of a plain net the package takes the mean over tokens


def test_a_model_in_a_folder(saved: Path) -> None:
    choice = EncoderChoice(f"sentence-transformers:{saved}")
    made = make_encoder(choice, None)
    texts = ["one two", "three three one two", "one"]
    vectors = made.encode(texts)
    assert vectors.shape == (3, made.width) == (3, 8)
    assert torch.equal(made.encode(texts[1:2])[0], vectors[1])
    assert not torch.equal(vectors[0], vectors[1])
    assert make_encoder(choice, None).sha256 == made.sha256
    with pytest.raises(UserError, match="has pooling of its own"):
        make_encoder(EncoderChoice(choice.name, pooling="max"), None)


def test_a_model_that_is_not_there(saved: Path) -> None:
    with pytest.raises(UserError, match="cannot be loaded") as caught:
        make_encoder(EncoderChoice(f"sentence-transformers:{saved}-gone"), None)
    assert "\n" not in str(caught.value)
