"""The pages that people read, taken apart: blocks of code, and code inside of sentences."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^\s*```(\w*)")
INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


@dataclass(frozen=True)
class Code:
    """A piece of code on a page, and where it begins; inside of a sentence it is `inline`."""

    file: str
    line: int
    text: str
    language: str = ""
    inline: bool = False

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]


def code() -> list[Code]:
    """All code on all pages."""
    return [piece for page in pages() for piece in code_of(page.read_text(), _name(page))]


def code_of(text: str, file: str = "page.md") -> Iterator[Code]:
    """Blocks and inline code of one page, in order."""
    prose: list[str] = []
    block: list[str] | None = None
    start, language = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if fence and block is None:
            block, start, language = [], number + 1, fence[1]
        elif fence and block is not None:
            yield Code(file, start, "\n".join(block), language)
            block = None
        elif block is not None:
            block.append(line)
        prose.append("" if fence or block is not None else line)
    for sentence, number in _paragraphs(prose):
        for match in INLINE.finditer(sentence):
            line = number + sentence[: match.start()].count("\n")
            yield Code(file, line, " ".join(match[1].split()), inline=True)


def prose_lines(page: Path) -> Iterator[tuple[int, str]]:
    """Lines that are neither code nor rows of a table."""
    inside = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside and not line.startswith("|"):
            yield number, line


def _paragraphs(lines: list[str]) -> Iterator[tuple[str, int]]:
    """Lines that belong together, with the number of the first: code may go over a line's end."""
    together: list[str] = []
    for number, line in enumerate([*lines, ""], 1):
        row = line.startswith("|")
        if together and (row or not line.strip()):
            yield "\n".join(together), number - len(together)
            together = []
        if row:
            yield line, number
        elif line.strip():
            together.append(line)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))
