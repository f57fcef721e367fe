"""Tables: small tables that read well in a notebook, in a terminal and with a screen reader.

Every class with a tabular form derives from :class:`Tabular`, which shows it as HTML in a notebook and as
aligned text in IPython's terminal, a long one by its first rows, and exports all rows to pandas and Arrow.
:class:`Table` is such a class for given rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any, ClassVar

from qflow.kit import explain_missing


class Tabular:
    """Base class of tables: a subclass defines ``columns``, and inherits the displays and exports."""

    __slots__ = ()

    SHOWN: ClassVar[int] = 10
    """The number of rows shown from a long table."""

    def __init_subclass__(cls) -> None:
        # IPython prefers a class's own __repr__ to a _repr_pretty_ that the class inherits.
        cls._repr_pretty_ = Tabular._repr_pretty_  # type: ignore[method-assign]

    def columns(self, start: int = 0, end: int | None = None) -> Mapping[str, Sequence[Any]]:
        """Return the columns by name, with all rows or those from `start` to `end`."""
        raise NotImplementedError

    def preview(self) -> Table:
        """Return a table of the first rows, which a notebook or a terminal shows."""
        columns = self.columns(0, self.SHOWN + 1)
        rows = list(zip(*columns.values(), strict=True))
        more = f", the first {self.SHOWN} rows" if len(rows) > self.SHOWN else ""
        return Table(rows[: self.SHOWN], list(columns), repr(self) + more)

    def to_pandas(self) -> Any:
        """Return all rows as a ``pandas.DataFrame``."""
        return _package("pandas").DataFrame(dict(self.columns()))

    def to_arrow(self) -> Any:
        """Return all rows as a ``pyarrow.Table``, with mappings among the values written as JSON."""
        return _package("pyarrow").table({name: _texts(values) for name, values in self.columns().items()})

    def _repr_html_(self) -> str:
        return self.preview()._repr_html_()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        # A table within a list or a mapping is shown on one line.
        printer.text(str(self.preview()) if len(printer.stack) == 1 else repr(self))


def columns_of(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Transpose rows into columns by name."""
    columns = map(list, zip(*rows, strict=True)) if rows else ([] for _ in names)
    return dict(zip(names, columns, strict=True))


def _texts(values: Sequence[Any]) -> Sequence[Any]:
    if any(isinstance(value, Mapping) for value in values):
        return [json.dumps(value, default=str) if isinstance(value, Mapping) else value for value in values]
    return values


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(explain_missing("this", name), name=name) from None


class Table(Tabular):
    """Rows under named columns, with a caption.

    Parameters:
        rows: Mappings of column name to value, or sequences of values in the order of `columns`.
        columns: The columns' names; if omitted, the keys of the first row.
        caption: The table's title, in one line.

    Raises:
        ValueError: If the number of a row's values differs from the number of columns.

    >>> Table([{"limit": 90, "stop": 72}, {"limit": 100, "stop": 80}], caption="the defaults")
    the defaults
    limit  stop
       90    72
      100    80
    """

    def __init__(
        self,
        rows: Iterable[Mapping[str, object] | Sequence[object]],
        columns: Sequence[str] | None = None,
        caption: str = "",
    ) -> None:
        given = list(rows)
        if columns is None:
            columns = list(given[0]) if given and isinstance(given[0], Mapping) else []
        self.names = [str(name) for name in columns]
        self.caption = caption
        self.rows = [self._values(row) for row in given]

    def _values(self, row: Mapping[str, object] | Sequence[object]) -> list[object]:
        values = [row.get(name, "") for name in self.names] if isinstance(row, Mapping) else list(row)
        if len(values) != len(self.names):
            raise ValueError(f"a row must have {len(self.names)} values; got {len(values)}")
        return values

    def column(self, name: str) -> list[object]:
        """Return one column's values.

        >>> Table([{"a": 1}, {"a": 2}]).column("a")
        [1, 2]
        """
        index = self.names.index(name)
        return [row[index] for row in self.rows]

    def columns(self, start: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """Return the columns by name, with all rows or those from `start` to `end`."""
        return {name: [row[index] for row in self.rows[start:end]] for index, name in enumerate(self.names)}

    def preview(self) -> Table:
        """Return the table itself, which is always shown in full."""
        return self

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        texts = [self.names, *([write_value(value) for value in row] for row in self.rows)]
        widths = [max(len(row[index]) for row in texts) for index in range(len(self.names))]
        right = [all(_is_number(row[index]) for row in self.rows) for index in range(len(self.names))]
        lines = [self.caption] if self.caption else []
        for row in texts:
            cells = (
                text.rjust(width) if to_right else text.ljust(width)
                for text, width, to_right in zip(row, widths, right, strict=True)
            )
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col" style="text-align:left">{escape(name)}</th>' for name in self.names)
        body = "\n".join(
            "<tr>"
            + "".join(f'<td style="text-align:left">{escape(write_value(value))}</td>' for value in row)
            + "</tr>"
            for row in self.rows
        )
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def write_value(value: object) -> str:
    """Return a value as the text of a table's cell: yes or no, a dash for None, lists with commas.

    >>> write_value(True), write_value(None), write_value(["A-1", "A-2"]), write_value([]), write_value(0.25)
    ('yes', '–', 'A-1, A-2', '–', '0.25')
    """
    if value is True or value is False:
        return "yes" if value else "no"
    if value is None:
        return "–"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(map(_item, value)) or "–"
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def _item(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
