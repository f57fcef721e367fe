"""Table: a small table that reads well in a notebook, in a terminal, and aloud.

Chapters show many of them. Jupyter and GitHub get HTML with a caption and headed rows and columns; everything
else gets aligned text with the same content.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape


class Table:
    """Rows under named columns, with a caption that says what they show.

    Parameters
    ----------
    rows
        Mappings of column name to value, or sequences of values in the order of `columns`.
    columns
        The columns' names; taken from the first row if not given.
    caption
        What the table shows, in one line.

    Raises
    ------
    ValueError
        If a row has another number of values than there are columns.

    Examples
    --------
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
        self.columns = [str(name) for name in columns]
        self.caption = caption
        self.rows = [self._values(row) for row in given]

    def _values(self, row: Mapping[str, object] | Sequence[object]) -> list[object]:
        values = [row.get(name, "") for name in self.columns] if isinstance(row, Mapping) else list(row)
        if len(values) != len(self.columns):
            raise ValueError(f"a row has {len(values)} values, got columns {', '.join(self.columns)}")
        return values

    def column(self, name: str) -> list[object]:
        """Return one column's values.

        Examples
        --------
        >>> Table([{"a": 1}, {"a": 2}]).column("a")
        [1, 2]
        """
        index = self.columns.index(name)
        return [row[index] for row in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        texts = [self.columns, *([shown(value) for value in row] for row in self.rows)]
        widths = [max(len(row[index]) for row in texts) for index in range(len(self.columns))]
        right = [all(_is_number(row[index]) for row in self.rows) for index in range(len(self.columns))]
        lines = [self.caption] if self.caption else []
        for row in texts:
            cells = (
                text.rjust(width) if to_right else text.ljust(width)
                for text, width, to_right in zip(row, widths, right, strict=True)
            )
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th scope="col" style="text-align:left">{escape(name)}</th>' for name in self.columns
        )
        body = "\n".join(
            "<tr>"
            + "".join(f'<td style="text-align:left">{escape(shown(value))}</td>' for value in row)
            + "</tr>"
            for row in self.rows
        )
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def shown(value: object) -> str:
    """Write a value as a table does: states and absences in words, lists with commas.

    Parameters
    ----------
    value
        Anything.

    Returns
    -------
    str

    Examples
    --------
    >>> shown(True), shown(None), shown(["A-1", "A-2"]), shown([]), shown(0.25)
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
