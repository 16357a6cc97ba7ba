"""ONNX files by onnxruntime: the session of a graph, which stays in its process."""

from __future__ import annotations

from typing import Any, Final

from feddiv.core.errors import UserError, in_one_line
from feddiv.encoders.onnx_whole import has_outside_weights

SEVERE: Final = 4  # of what onnxruntime says, only fatal errors: others come as exceptions


class OnnxGraph:
    """A graph that can go to another process: there its session is made anew."""

    def __init__(self, content: bytes, name: str) -> None:
        _check_whole(content, name)
        self.content, self.name = content, name
        self._session: Any = _session(content, name)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None}

    @property
    def session(self) -> Any:
        """That of this process."""
        if self._session is None:
            self._session = _session(self.content, self.name)
        return self._session

    @property
    def inputs(self) -> list[Any]:
        """Name, type and shape of each input."""
        return list(self.session.get_inputs())

    @property
    def takes_tokens(self) -> bool:
        """Whether it is for texts: all of its inputs are whole numbers."""
        return all(each.type in ("tensor(int64)", "tensor(int32)") for each in self.inputs)


def _check_whole(content: bytes, name: str) -> None:
    try:
        outside = has_outside_weights(content)
    except ValueError as problem:
        raise UserError(f"data.encoder={name}: cannot be loaded as ONNX ({problem})") from None
    if outside:
        raise UserError(
            f"data.encoder={name}: has weights in another file, which its sha256 does not cover; "
            "save it as one file (torch.onnx.export with external_data=False)"
        )


def _session(content: bytes, name: str) -> Any:
    """From the bytes whose hash is known: nothing else is read, so a graph has to be whole."""
    try:
        import onnxruntime
    except ImportError:
        raise UserError(
            f"data.encoder={name} needs onnxruntime; install feddiv[encoders]"
        ) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # the same bits everywhere
    options.log_severity_level = SEVERE
    options.add_session_config_entry("session.load_model_format", "ONNX")  # as it was checked
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        # What it says of itself, which is no text perhaps.
        said = (*session.get_inputs(), *session.get_outputs(), session.get_modelmeta())
        [(each.name, each.shape) for each in said[:-1]], said[-1].custom_metadata_map
        return session
    except Exception as problem:
        raise UserError(
            f"data.encoder={name}: cannot be loaded as ONNX with all its weights in the one file "
            f"({in_one_line(problem)[:200]})"
        ) from None
