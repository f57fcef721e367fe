"""The words of an address string (CF-14): names of tokens, and cutting a string into them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

LBRACE, RBRACE, LBRACK, RBRACK = "LBRACE", "RBRACE", "LBRACK", "RBRACK"
COLON, SEMI, SLASH, COMMA = "COLON", "SEMI", "SLASH", "COMMA"
NUMBER, ID, STRING, ESC, SYM, WSPACE, EOF = "NUMBER", "ID", "STRING", "ESC", "SYM", "WSPACE", "EOF"

_PATTERNS = {
    LBRACE: r"\{",
    RBRACE: r"\}",
    LBRACK: r"\[",
    RBRACK: r"\]",
    COLON: r":",
    SEMI: r";",
    SLASH: r"/",
    COMMA: r",",
    NUMBER: r"[+-]?[0-9]*\.?[0-9]+",
    ID: r"[a-zA-Z_](?:[a-zA-Z0-9_-]*[a-zA-Z0-9_])?",
    STRING: r'"(?:[^\\"]|\\.)*"|' r"'(?:[^\\']|\\.)*'",
    ESC: r"\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[^ux]",
    SYM: r"[.#*%@$^!+-]",
    WSPACE: r"[ \n\r\t]+",
}
_LEXER = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _PATTERNS.items()))


class LexError(Exception):
    """A character that no token begins with."""


class Token(NamedTuple):
    """One word of an address, and where it stands."""

    type: str
    value: str
    text: str
    position: int

    def __str__(self) -> str:
        return self.type if self.type == EOF else f"{self.type}({self.value})"

    @property
    def place(self) -> str:
        """Line, column, and the line itself, as error messages show them."""
        line, column, text = locate(self.text, self.position)
        return f"line:{line},{column}:{text}"


def locate(text: str, position: int) -> tuple[int, int, str]:
    """Return number, column and text of the line a position is in; lines count from 1, columns from 0."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return text.count("\n", 0, position) + 1, position - start, text[start : end if end >= 0 else len(text)]


def lex(text: str) -> Iterator[Token]:
    """Cut an address into tokens, white space included; the last one is the end.

    Raises
    ------
    LexError
        "unrecognized characters", with line, column and the line.

    Examples
    --------
    >>> [token.type for token in lex("foo-3 - 3")]
    ['ID', 'WSPACE', 'SYM', 'WSPACE', 'NUMBER', 'EOF']
    """
    position = 0
    while position < len(text):
        match = _LEXER.match(text, position)
        if match is None:
            line, column, shown = locate(text, position)
            raise LexError(f"unrecognized characters line:{line},{column}: {shown}")
        yield Token(str(match.lastgroup), match.group(), text, position)
        position = match.end()
    yield Token(EOF, "", text, position)
