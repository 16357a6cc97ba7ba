"""A tiny encoder of texts in an ONNX file, whose numbers can be told by hand."""

from pathlib import Path
from typing import Any

import pytest

onnx = pytest.importorskip("onnx", reason="no onnx to make a graph with")
pytest.importorskip("onnxruntime", reason="no onnxruntime, the extra encoders")
tokenizers = pytest.importorskip("tokenizers", reason="no tokenizers, the extra encoders")

WORDS = {"[PAD]": 0, "[UNK]": 1, "one": 2, "two": 3, "three": 4}


def graph(file: Path, *, vector: bool = False, name: str = "input_ids", length: Any = "t") -> Path:
    """Tokens' vectors are (number, 10 x number); the graph's own vector is the last token's."""
    helper, whole = onnx.helper, onnx.TensorProto
    table = [value for n in range(len(WORDS)) for value in (float(n), 10.0 * n)]
    weights = helper.make_tensor("table", whole.FLOAT, (len(WORDS), 2), table)
    last = helper.make_tensor("last", whole.INT64, (), [-1])
    nodes = [helper.make_node("Gather", ["table", name], ["tokens"])]
    outputs = [helper.make_tensor_value_info("tokens", whole.FLOAT, (1, length, 2))]
    if vector:
        nodes.append(helper.make_node("Gather", ["tokens", "last"], ["sentence"], axis=1))
        outputs.append(helper.make_tensor_value_info("sentence", whole.FLOAT, (1, 2)))
    inputs = [helper.make_tensor_value_info(name, whole.INT64, (1, length))]
    made = helper.make_model(
        helper.make_graph(nodes, "tiny", inputs, outputs, [weights, last]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )
    file.write_bytes(made.SerializeToString())
    return file


def tokenizer(folder: Path, longest: int | None = None) -> None:
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if longest is not None:
        made.enable_truncation(longest)
    made.save(str(folder / "tokenizer.json"))
