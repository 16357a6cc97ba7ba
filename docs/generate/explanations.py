"""What the source says of the keys of a class of options: its docstring, and comments at keys."""

import ast
import inspect
import io
import textwrap
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass

from feddiv.core.options import Options


@dataclass(frozen=True)
class Comment:
    """A comment, and whether it has a line of its own."""

    text: str
    alone: bool


def text_of(options: type[Options]) -> str:
    """What the class says of itself, and a base class of the keys that it brings."""
    texts = [inspect.getdoc(options) or ""]
    for base in _lineage(options)[:-1]:
        text = inspect.cleandoc(base.__doc__ or "")
        own = vars(base)["__annotations__"].keys() & base.model_fields.keys()
        if any(f"`{name}`" in text for name in own):
            texts.append(text)
    return "\n\n".join(texts)


def comments_of(options: type[Options]) -> dict[str, str]:
    """The comment beside each key, or right above it."""
    found: dict[str, str] = {}
    for kind in _lineage(options):
        source = textwrap.dedent(inspect.getsource(kind))
        comments = _comments(source)
        definition = ast.parse(source).body[0]
        assert isinstance(definition, ast.ClassDef)
        for node in definition.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                said = _comment_at(node, comments)
                found[node.target.id] = said or found.get(node.target.id, "")
    return found


def _lineage(options: type[Options]) -> list[type[Options]]:
    """The class and those that it inherits keys from, the most general first."""
    kinds = [kind for kind in options.__mro__ if issubclass(kind, Options) and kind is not Options]
    return [kind for kind in reversed(kinds) if "__annotations__" in vars(kind)]


def _comments(source: str) -> dict[int, Comment]:
    """Comments by line."""
    return {
        token.start[0]: Comment(token.string.lstrip("# "), token.line.lstrip().startswith("#"))
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }


def _comment_at(node: ast.AnnAssign, comments: Mapping[int, Comment]) -> str:
    own = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    lines = [comments[line].text for line in own if line in comments]
    above = node.lineno - 1
    while above in comments and comments[above].alone:
        lines.insert(0, comments[above].text)
        above -= 1
    return " ".join(lines)
