"""Address strings: ``name [/ subject] [; {options}]`` (CF-14), parsed into plain values.

Grammar::

    address = name [ "/" subject ] [ ";" map ]
    name    = one or more tokens other than "/" and ";"     (these can be quoted or escaped)
    subject = tokens other than ";"
    map     = "{" [ pair { "," pair } [ "," ] ] "}"
    pair    = value ":" value
    list    = "[" [ value { "," value } [ "," ] ] "]"
    value   = NUMBER | STRING | ID | map | list

White space between tokens has no meaning, not even inside a name.

:func:`parse` splits a string into tokens and parses them by the grammar; :func:`find_error` then returns the
options that are unknown or have a value that is not allowed.

This is the grammar of the Python client.  The C++ client has another one (:func:`parse_cpp`): an unquoted
word ends at white space or at one of ``'"{}[],:/``, so a key with dots needs no quotes; there are no escapes;
and ``True`` is a text, which the broker converts where it expects a boolean.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from qflow.qflow_error import QflowError

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


class LexError(QflowError):
    """An address has a character with which no token can begin, or is not valid for the C++ client."""


class _AddressToken(NamedTuple):
    """A token of an address: its type and value, with the whole text and the token's position in it."""

    type: str
    value: str
    text: str
    position: int

    def __str__(self) -> str:
        return self.type if self.type == EOF else f"{self.type}({self.value})"

    @property
    def place(self) -> str:
        """The token's line number, column and line, as error messages show them."""
        line, column, text = _locate(self.text, self.position)
        return f"line:{line},{column}:{text}"


def _locate(text: str, position: int) -> tuple[int, int, str]:
    """Return the line number (from 1), column (from 0) and text of the line at a position."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return text.count("\n", 0, position) + 1, position - start, text[start : end if end >= 0 else len(text)]


def _lex(text: str) -> Iterator[_AddressToken]:
    """Yield the tokens of an address, white space included, and an EOF token; or raise a LexError."""
    position = 0
    while position < len(text):
        match = _LEXER.match(text, position)
        if match is None:
            line, column, shown = _locate(text, position)
            raise LexError(f"unrecognized characters line:{line},{column}: {shown}")
        yield _AddressToken(str(match.lastgroup), match.group(), text, position)
        position = match.end()
    yield _AddressToken(EOF, "", text, position)


Options = dict[object, object]
_CONSTANTS: dict[str, object] = {"True": True, "true": True, "False": False, "false": False, "None": None}
_VALUE = (NUMBER, STRING, ID, LBRACE, LBRACK)


class Address(NamedTuple):
    """The parts of an address; a subject or options that are absent are None."""

    name: str
    subject: str | None
    options: Options | None

    def option(self, key: str) -> Any:
        """Return the value of an option, or None if it is absent."""
        return (self.options or {}).get(key)

    @property
    def node(self) -> dict[str, Any]:
        """The options of the node; {} if there are none."""
        return self.option("node") or {}

    @property
    def link(self) -> dict[str, Any]:
        """The options of the link; {} if there are none."""
        return self.option("link") or {}

    def wants(self, policy: str, role: str) -> bool:
        """Return whether a policy (create, assert or delete) applies to a role (sender or receiver)."""
        return self.option(policy) in ("always", role)


class ParseError(QflowError):
    """An address has a token where the grammar does not allow it; the text lists the allowed types."""

    def __init__(self, token: _AddressToken, *expected: str) -> None:
        self.token = token
        self.expected = expected
        if not expected:
            text = f"unexpected token {token} {token.place}"
        else:
            allowed = ", ".join(expected)
            text = f"expecting {f'({allowed})' if len(expected) > 1 else allowed}, got {token} {token.place}"
        super().__init__(text)


class _Parser:
    """A parser of one address by the Python client's grammar, token by token."""

    def __init__(self, text: str) -> None:
        self._tokens = [token for token in _lex(text) if token.type != WSPACE]
        self._index = 0

    def address(self) -> Address:
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
    def _next(self) -> _AddressToken:
        return self._tokens[self._index]

    def _eat(self, *types: str) -> _AddressToken:
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
            return [self._value() for _ in self._items(LBRACK, RBRACK)]
        return _as_object(self._eat(*_VALUE))

    def _map(self) -> Options:
        result: Options = {}
        for token in self._items(LBRACE, RBRACE):
            if token.type not in _VALUE:
                raise ParseError(token, *_VALUE, RBRACE)
            key = self._value()
            if isinstance(key, list | dict):
                raise ParseError(token, NUMBER, STRING, ID)
            self._eat(COLON)
            result[key] = self._value()
        return result

    def _items(self, start: str, end: str) -> Iterator[_AddressToken]:
        """Yield the first token of each item of a map or list; the caller must parse the item."""
        self._eat(start)
        while self._next.type != end:
            yield self._next
            if self._eat(COMMA, end).type == end:
                return
        self._eat(end)


def parse(text: str) -> Address:
    """Parse an address, or raise a LexError or ParseError that names the fault and its position.

    >>> parse("orders/new.#; {create: always, node: {durable: True}}")
    Address(name='orders', subject='new.#', options={'create': 'always', 'node': {'durable': True}})
    """
    return _Parser(text).address()


_CPP_RESERVED = "'\"{}[],:/"
_CPP_WORD = re.compile(rf"[^\s{re.escape(_CPP_RESERVED)}]+")
_CPP_NAME, _CPP_SUBJECT = re.compile(r"[^\s/;]+"), re.compile(r"[^\s;]+")


class _CppParser:
    """A parser of one address by the C++ client's grammar, character by character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def address(self) -> Address:
        name = self._word(_CPP_NAME)
        if name is None:
            raise self._error("expected a name")
        subject = self._word(_CPP_SUBJECT) if self._takes("/") else None
        options: Options | None = None
        if self._takes(";"):
            options = self._map()
        self._skip()
        if self._at < len(self._text):
            raise self._error("unexpected text")
        return Address(name, subject, options)

    def _error(self, what: str) -> LexError:
        return LexError(f"{what} at character {self._at} of {self._text}")

    def _skip(self) -> None:
        while self._text[self._at : self._at + 1] in (" ", "\t", "\r", "\n"):
            self._at += 1

    def _takes(self, letter: str) -> bool:
        self._skip()
        found = self._text[self._at : self._at + 1] == letter
        self._at += found
        return found

    def _word(self, pattern: re.Pattern[str] = _CPP_WORD) -> str | None:
        for quote in "'\"":
            if self._takes(quote):
                end = self._text.find(quote, self._at)
                if end < 0:
                    raise self._error(f"unmatched {quote}")
                text, self._at = self._text[self._at : end], end + 1
                return text
        match = pattern.match(self._text, self._at)
        if match is None:
            return None
        self._at = match.end()
        return match[0]

    def _value(self) -> object:
        self._skip()
        is_quoted = self._text[self._at : self._at + 1] in ("'", '"')
        word = self._word()
        if word is not None:
            return word if is_quoted else _as_number(word)
        if self._text[self._at : self._at + 1] == "[":
            return self._list()
        return self._map()

    def _list(self) -> list[object]:
        items: list[object] = []
        self._takes("[")
        while not self._takes("]"):
            items.append(self._value())
            if not self._takes(","):
                if not self._takes("]"):
                    raise self._error("unmatched [")
                break
        return items

    def _map(self) -> Options:
        result: Options = {}
        if not self._takes("{"):
            raise self._error("expected a value")
        while (key := self._word()) is not None:
            if not self._takes(":"):
                raise self._error("a key without a value")
            result[key] = self._value()
            if not self._takes(","):
                break
        if not self._takes("}"):
            raise self._error("unmatched {")
        return result


def _as_number(word: str) -> object:
    for read in (int, float):
        if re.fullmatch(r"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?", word):
            try:
                return read(word)
            except ValueError:
                continue
    return word


def parse_cpp(text: str) -> Address:
    """Parse an address as the C++ client does, or raise a LexError that names the fault and its position.

    >>> parse_cpp("ring; {node: {x-declare: {arguments: {qpid.policy_type: ring, on: True}}}}").node
    {'x-declare': {'arguments': {'qpid.policy_type': 'ring', 'on': 'True'}}}
    """
    return _CppParser(text).address()


def hint_at_cpp(text: str) -> str:
    """Return a hint for an address that only the C++ client can parse, or ""."""
    try:
        options = parse_cpp(text).options or {}
    except LexError:
        return ""
    if find_error(options, "receiver", is_cpp=True):
        return ""
    return "; qpid-cpp reads this address, whose bare words may have dots: for qpid-python put them in quotes"


def _unquote(token: _AddressToken) -> str:
    try:
        return str(ast.literal_eval(token.value))
    except (SyntaxError, ValueError):
        # An incomplete escape, such as "\\x1".
        raise ParseError(token) from None


def _as_text(token: _AddressToken) -> str:
    if token.type == STRING:
        return _unquote(token)
    if token.type == ESC:
        return chr(int(token.value[2:], 16)) if token.value[1] in "xu" else token.value[1]
    return token.value


def _as_object(token: _AddressToken) -> object:
    if token.type == STRING:
        return _unquote(token)
    if token.type == NUMBER:
        return float(token.value) if "." in token.value else int(token.value)
    return _CONSTANTS.get(token.value, token.value)


_POLICY = ("always", "sender", "receiver", "never")
_BINDINGS = [{"exchange": str, "queue": str, "key": str, "arguments": dict}]
_SENDER: dict[str, Any] = {
    "create": _POLICY,
    "delete": _POLICY,
    "assert": _POLICY,
    "node": {
        "type": ("queue", "topic"),
        "durable": bool,
        "x-declare": dict,
        "x-bindings": _BINDINGS,
    },
    "link": {
        "name": str,
        "durable": bool,
        "reliability": ("unreliable", "at-most-once", "at-least-once", "exactly-once"),
        "x-declare": dict,
        "x-bindings": _BINDINGS,
        "x-subscribe": dict,
        "selector": " (qpid-cpp has it; here: x-subscribe: {arguments: {x-apache-selector: ...}})",
        "timeout": " (qpid-cpp has it; here: x-declare: {arguments: {'qpid.auto_delete_timeout': ...}})",
    },
}
_RECEIVER = {**_SENDER, "mode": ("browse", "consume")}
"""The allowed options: a tuple of words, a type, a list with the form of its items, or a map of entries.

A text marks an option that is not allowed, and names the option that has its purpose here.
"""


def _allow_cpp(allowed: Any) -> Any:
    """Return the options that qpid-cpp allows: any value for a boolean, and two more options of links."""
    if isinstance(allowed, dict):
        return {key: _allow_cpp(entry) for key, entry in allowed.items()}
    return object if allowed is bool or isinstance(allowed, str) else allowed


def find_error(options: Options, role: str, *, is_cpp: bool = False) -> str | None:
    """Return the faults in the options of an address for a role, or None; ``is_cpp`` for the C++ client."""
    allowed = _RECEIVER if role == "receiver" else _SENDER
    return _find_error(options, _allow_cpp(allowed) if is_cpp else allowed)


def _find_error(value: object, allowed: Any) -> str | None:
    if isinstance(allowed, tuple):
        return None if value in allowed else f"{value} not in {allowed}"
    kind = allowed if isinstance(allowed, type) else type(allowed)
    if not isinstance(value, kind):
        return f"{value} is not a {'map' if kind is dict else kind.__name__}"
    if isinstance(allowed, list) and isinstance(value, list):
        return next(filter(None, (_find_error(item, allowed[0]) for item in value)), None)
    if isinstance(allowed, dict) and isinstance(value, dict):
        return ", ".join(_find_entry_errors(value, allowed)) or None
    return None


def _find_entry_errors(entries: Options, allowed: dict[str, Any]) -> Iterator[str]:
    known = {key: entry for key, entry in allowed.items() if not isinstance(entry, str)}
    for key, entry in known.items():
        error = None if entries.get(key) is None else _find_error(entries[key], entry)
        if error:
            yield f"{key}: {error}"
    yield from (f"{key}: illegal key{allowed.get(str(key), '')}" for key in entries if key not in known)
