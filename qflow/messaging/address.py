"""Address strings: ``name [/ subject] [; {options}]`` (CF-14), parsed into plain values.

Grammar::

    address = name [ "/" subject ] [ ";" map ]
    name    = one or more tokens other than "/" and ";"     (quote or escape to have those in it)
    subject = tokens other than ";"
    map     = "{" [ pair { "," pair } [ "," ] ] "}"
    pair    = value ":" value
    list    = "[" [ value { "," value } [ "," ] ] "]"
    value   = NUMBER | STRING | ID | map | list

White space between tokens has no meaning, not even inside a name.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from qflow.messaging.address_lexer import (
    COLON,
    COMMA,
    EOF,
    ESC,
    ID,
    LBRACE,
    LBRACK,
    NUMBER,
    RBRACE,
    RBRACK,
    SEMI,
    SLASH,
    STRING,
    WSPACE,
    LexError,
    Token,
    lex,
)

Options = dict[object, object]
_CONSTANTS: dict[str, object] = {"True": True, "true": True, "False": False, "false": False, "None": None}
_VALUE = (NUMBER, STRING, ID, LBRACE, LBRACK)


class Address(NamedTuple):
    """The parts of an address; what is absent is None."""

    name: str
    subject: str | None
    options: Options | None


class ParseError(Exception):
    """A token where the grammar does not allow it.

    Parameters
    ----------
    token : Token
        The token that is there.
    *expected : str
        The types it could have.
    """

    def __init__(self, token: Token, *expected: str) -> None:
        self.token = token
        self.expected = expected
        if not expected:
            text = f"unexpected token {token} {token.place}"
        else:
            allowed = ", ".join(expected)
            text = f"expecting {f'({allowed})' if len(expected) > 1 else allowed}, got {token} {token.place}"
        super().__init__(text)


class AddressParser:
    """Reads one address, token by token."""

    def __init__(self, text: str) -> None:
        self._tokens = [token for token in lex(text) if token.type != WSPACE]
        self._index = 0

    def address(self) -> Address:
        """Read all of it."""
        name = self._text_until(SLASH, SEMI, EOF)
        if name is None:
            raise ParseError(self._next)
        subject: str | None = None
        options: Options | None = None
        if self._next.type == SLASH:
            self._eat(SLASH)
            subject = self._text_until(SEMI, EOF)
        if self._next.type == SEMI:
            self._eat(SEMI)
            options = self._map()
        self._eat(EOF)
        return Address(name, subject, options)

    @property
    def _next(self) -> Token:
        return self._tokens[self._index]

    def _eat(self, *types: str) -> Token:
        token = self._next
        if token.type not in types:
            raise ParseError(token, *types)
        self._index += 1
        return token

    def _text_until(self, *ends: str) -> str | None:
        parts: list[str] = []
        while self._next.type not in ends:
            parts.append(_as_text(self._next))
            self._index += 1
        return "".join(parts) if parts else None

    def _value(self) -> object:
        token = self._next
        if token.type == LBRACE:
            return self._map()
        if token.type == LBRACK:
            return self._list()
        return _as_object(self._eat(*_VALUE))

    def _map(self) -> Options:
        self._eat(LBRACE)
        result: Options = {}
        while self._next.type != RBRACE:
            token = self._next
            if token.type not in _VALUE:
                raise ParseError(token, *_VALUE, RBRACE)
            key = self._value()
            if isinstance(key, list | dict):
                raise ParseError(token, NUMBER, STRING, ID)
            self._eat(COLON)
            result[key] = self._value()
            if not self._continues(RBRACE):
                break
        self._eat(RBRACE)
        return result

    def _list(self) -> list[object]:
        self._eat(LBRACK)
        result: list[object] = []
        while self._next.type != RBRACK:
            result.append(self._value())
            if not self._continues(RBRACK):
                break
        self._eat(RBRACK)
        return result

    def _continues(self, end: str) -> bool:
        if self._next.type not in (COMMA, end):
            raise ParseError(self._next, COMMA, end)
        if self._next.type == end:
            return False
        self._eat(COMMA)
        return True


def parse(text: str) -> Address:
    """Parse an address.

    Raises
    ------
    LexError, ParseError
        What is wrong, and where.

    Examples
    --------
    >>> parse("orders/new.#; {create: always, node: {durable: True}}")
    Address(name='orders', subject='new.#', options={'create': 'always', 'node': {'durable': True}})
    >>> parse("orders; { key: value")
    Traceback (most recent call last):
        ...
    qflow.messaging.address.ParseError: expecting (COMMA, RBRACE), got EOF line:1,20:orders; { key: value
    """
    return AddressParser(text).address()


def _unquoted(token: Token) -> str:
    try:
        return str(ast.literal_eval(token.value))
    except (SyntaxError, ValueError):
        # An escape that is cut off, such as "\\x1".
        raise ParseError(token) from None


def _as_text(token: Token) -> str:
    if token.type == STRING:
        return _unquoted(token)
    if token.type == ESC:
        return chr(int(token.value[2:], 16)) if token.value[1] in "xu" else token.value[1]
    return token.value


def _as_object(token: Token) -> object:
    if token.type == STRING:
        return _unquoted(token)
    if token.type == NUMBER:
        return float(token.value) if "." in token.value else int(token.value)
    return _CONSTANTS.get(token.value, token.value)


__all__ = ["Address", "LexError", "ParseError", "parse"]
