"""Tables in files, CSV or Parquet, read by column."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from feddiv.core.errors import UserError
from feddiv.core.given_files import check_regular, open_regular
from feddiv.core.spreadsheets import separator
from feddiv.data.sources.table_cells import Floats, Table

PARQUET: Final = (".parquet", ".pq")
TABLES: Final = (".csv", ".tsv", *PARQUET)  # endings that say so
NO_VALUE: Final = frozenset({"", "na", "n/a", "nan", "null", "none", "-", "?", "."})
LONGEST: Final = 16 << 20  # characters of a line
BATCH: Final = 16_384  # rows of a Parquet file at a time


class CsvTable(Table):
    """Comma, semicolon or tab between values, the first line names the columns.

    The file is read once for each question, so that wide tables need no list of all their texts.
    """

    def __init__(self, path: Path, where: str) -> None:
        super().__init__(where, path.name, path.parent)
        self.path, self.names, self._delimiter = path, (), ","
        with self._opened() as file:
            head = next(_lines(file, where), "")
        if not head.strip():
            raise self.malformed("is empty, the first line has to name the columns")
        if "\0" in head:
            raise self.malformed("is not UTF-8 but UTF-16, or no text; save it as CSV in UTF-8")
        self._delimiter = separator(head)
        rows = self._lines()
        self.names = tuple(name.strip() for name in next(rows, (1, [""]))[1])
        seen: set[str] = set()
        for place, name in enumerate(self.names):
            if not name:
                raise self.malformed(f"column {place + 1} has no name")
            if name in seen:
                raise self.malformed(f"column {name!r} is there twice")
            seen.add(name)
        self._line_of: list[int] = []
        self._first: dict[str, str] = {}  # values that say what kind of column it is
        for line, values in self._rows():
            self._line_of.append(line)
            if len(self._first) < len(self.names):
                for name, value in zip(self.names, values, strict=True):
                    if value.strip().casefold() not in NO_VALUE:
                        self._first.setdefault(name, value)
        if not self._line_of:
            raise self.malformed("has no rows")

    def place(self, row: int) -> str:
        """By line of the file: a value may have line breaks in it."""
        return f"line {self._line_of[row]}"

    def texts(self, columns: Sequence[str]) -> list[list[str]]:
        """Values without blanks around them."""
        places = [self.names.index(column) for column in columns]
        found: list[list[str]] = [[] for _ in columns]
        for _, values in self._rows():
            for place, column in zip(places, found, strict=True):
                column.append(values[place].strip())
        return found

    def numeric(self, column: str) -> bool:
        """Judged by the first row that has a value."""
        return _is_number(self._first.get(column, ""))

    def lists(self, column: str) -> bool:
        """Never."""
        return False

    def vectors(self, columns: Sequence[str]) -> Floats:
        """Row by row."""
        places = [self.names.index(column) for column in columns]
        numbers = np.empty((len(self._line_of), len(places)), dtype=np.float32)
        with np.errstate(over="ignore"):
            for row, (_, values) in enumerate(self._rows()):
                try:
                    numbers[row] = [float(values[place]) for place in places]
                except ValueError:
                    wrong = next(place for place in places if not _is_number(values[place]))
                    said = values[wrong].strip()
                    problem = f"is {said!r}, not a number" if said else "is missing"
                    raise self.malformed(f"{self.names[wrong]} {problem}", row) from None
        return self.check_finite(numbers, columns)

    def _opened(self) -> io.TextIOWrapper:
        try:
            file = open_regular(self.path)
            return io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
        except OSError as error:
            raise self.malformed(f"cannot be read ({error.strerror or error})") from None

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Line number and values of every row; blank lines are none."""
        lines = self._lines()
        next(lines)  # the names
        for line, values in lines:
            if len(values) != len(self.names):
                raise UserError(
                    f"{self.where} line {line}: {len(values)} values for {len(self.names)} columns"
                )
            yield line, values

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        with self._opened() as file:
            reader = csv.reader(_lines(file, self.where), delimiter=self._delimiter)
            try:
                for values in reader:
                    if any(value.strip() for value in values):
                        yield reader.line_num, values
            except csv.Error as error:
                raise UserError(f"{self.where} line {reader.line_num}: {error}") from None


class ParquetTable(Table):
    """Through pyarrow, an extra. Columns are read when they are asked for, some rows at a time."""

    def __init__(self, path: Path, where: str) -> None:
        super().__init__(where, path.name, path.parent)
        try:
            import pyarrow as arrow
            import pyarrow.parquet as parquet
        except ImportError:
            raise UserError(
                f"{where}: reading Parquet needs the package pyarrow; "
                "pip install 'feddiv[parquet]', or save the table as CSV"
            ) from None
        self._types, self._problems = arrow.types, (OSError, arrow.ArrowException, ValueError)
        try:
            self._file = parquet.ParquetFile(path)
        except self._problems as error:
            raise self._unreadable(error) from None
        self._schema = self._file.schema_arrow
        self.names, self._rows = tuple(self._schema.names), self._file.metadata.num_rows
        if not self._rows:
            raise self.malformed("has no rows")

    def place(self, row: int) -> str:
        """By row, the first is 1."""
        return f"row {row + 1}"

    def texts(self, columns: Sequence[str]) -> list[list[str]]:
        """One column after the other."""
        return [self.as_texts(column, self._values(column)) for column in columns]

    def _values(self, column: str) -> list[Any]:
        found: list[Any] = []
        for first, batch in self._batches([column]):
            try:
                found += batch[column].to_pylist()
            except UnicodeDecodeError as error:  # pyarrow does not look before
                raise self.malformed(
                    f"{column} is not UTF-8 (byte 0x{error.object[error.start]:02x}), here or in "
                    "a row soon after; save it in UTF-8",
                    first,
                ) from None
        return found

    def numeric(self, column: str) -> bool:
        """By its type."""
        kind, types = self._schema.field(column).type, self._types
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))

    def lists(self, column: str) -> bool:
        """By its type."""
        kind, types = self._schema.field(column).type, self._types
        if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
            return False
        return bool(types.is_integer(kind.value_type) or types.is_floating(kind.value_type))

    def vectors(self, columns: Sequence[str]) -> Floats:
        """Columns side by side, or the lists of one column under each other."""
        if len(columns) == 1 and self.lists(columns[0]):
            return self.check_finite(self._stacked(columns[0]), columns)
        for column in columns:
            if not self.numeric(column):
                kind = self._schema.field(column).type
                raise self.malformed(f"column {column} holds {kind}, not numbers")
        numbers = np.empty((self._rows, len(columns)), dtype=np.float32)
        with np.errstate(over="ignore"):
            for first, batch in self._batches(columns):
                for place, column in enumerate(columns):
                    part = batch[column].to_numpy(zero_copy_only=False)
                    numbers[first : first + len(part), place] = part.astype(np.float32)
        return self.check_finite(numbers, columns)

    def _stacked(self, column: str) -> Floats:
        numbers = None
        for first, batch in self._batches([column]):
            lists = batch[column]
            lengths = lists.value_lengths().to_numpy(zero_copy_only=False).astype(np.float64)
            if numbers is None:  # a length is NaN where there is no list
                if np.isnan(lengths[0]) or lengths[0] == 0:
                    raise self.malformed(f"{column} is missing or empty", 0)
                numbers = np.empty((self._rows, int(lengths[0])), dtype=np.float32)
            odd = np.flatnonzero(lengths != numbers.shape[1])
            if len(odd):
                there = lengths[odd[0]]
                problem = "is missing" if np.isnan(there) else f"has {there:.0f} numbers"
                raise self.malformed(
                    f"{column} {problem}, the first row has {numbers.shape[1]}",
                    first + int(odd[0]),
                )
            with np.errstate(over="ignore"):
                flat = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
            numbers[first : first + len(lengths)] = flat.reshape(len(lengths), -1)
        assert numbers is not None
        return numbers

    def _batches(self, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Some rows of these columns at a time, and the number of the first row."""
        first = 0
        try:
            for batch in self._file.iter_batches(BATCH, columns=list(columns)):
                yield first, {column: batch.column(column) for column in columns}
                first += batch.num_rows
        except self._problems as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> UserError:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return self.malformed(f"cannot be read as Parquet ({reason})")


def _lines(file: io.TextIOWrapper, where: str) -> Iterator[str]:
    """The lines of a file, none of which may fill the memory."""
    while line := file.readline(LONGEST):
        if len(line) == LONGEST:
            raise UserError(f"{where}: a line has more than {LONGEST:,} characters")
        yield line


def read_table(path: Path, where: str = "") -> Table:
    """The table in a file, by the ending of its name; `where` names it in errors."""
    where = where or f"data.path={path}"
    if path.is_dir() or not path.exists():
        kind = "is a folder" if path.is_dir() else "there is no such file"
        raise UserError(f"{where}: {kind}; a .csv or .parquet file is needed")
    try:
        check_regular(path)
    except OSError as error:
        raise UserError(f"{where}: cannot be read ({error.strerror or error})") from None
    kind_of = ParquetTable if path.suffix.lower() in PARQUET else CsvTable
    return kind_of(path, where)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
