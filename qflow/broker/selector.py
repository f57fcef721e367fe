"""Selector: the condition that a message must meet for a subscription or a queue (QT-16).

The language is the SQL-92 subset of JMS: comparisons, AND OR NOT, IS NULL, LIKE, BETWEEN, IN and arithmetic
over the message's application headers, with SQL's three truth values.  First come the operations on values,
then the parser, one method for each rule of the grammar; it makes a function of the message of each rule.
Only parentheses nest, and only to a depth at which neither parsing nor evaluating can run out of stack.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from typing import ClassVar, Final

from qflow.broker.errors import FramingErrorException
from qflow.broker.message import HeaderValue, Message, Transfer

Value = HeaderValue
"""A property's or an expression's value; None is SQL's NULL, and the truth value *unknown*."""

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


_JMS_NAMES = {
    "JMSPriority": "amqp.priority",
    "JMSDeliveryMode": "amqp.delivery_mode",
    "JMSCorrelationID": "amqp.correlation_id",
    "JMSMessageID": "amqp.message_id",
}


def _property_value(message: Message, name: str) -> Value:
    """Return a property: ``amqp.`` and ``JMS`` names mean the message's own, all others its headers.

    Lists, maps and UUIDs are no values that a selector could see.
    """
    name = _JMS_NAMES.get(name, name)
    if name.startswith(("amqp.", "JMS")):
        own: dict[str, Value] = {
            "amqp.priority": message.priority or 0,
            "amqp.durable": message.durable,
            "amqp.delivery_mode": "PERSISTENT" if message.durable else "NON_PERSISTENT",
            "amqp.correlation_id": message.correlation_id,
            "amqp.message_id": None if message.message_id is None else str(message.message_id),
        }
        return own.get(name)
    value = message.header(name)
    return value if isinstance(value, bool | int | float | str) else None


def _negate(value: Value) -> Value:
    """Return NOT value; unknown stays unknown."""
    return not value if isinstance(value, bool) else None


def _any_of(values: Iterable[Value]) -> Value:
    """Return OR over values: true if one is, else unknown if one is, else false."""
    truths = [value if isinstance(value, bool) else None for value in values]
    if True in truths:
        return True
    return None if None in truths else False


def _all_of(values: Iterable[Value]) -> Value:
    """Return AND over values: false if one is, else unknown if one is, else true."""
    return _negate(_any_of([_negate(value) for value in values]))


def _compare(symbol: str, left: Value, right: Value) -> Value:
    """Compare two values; unlike kinds are neither equal nor unequal, NULL is unknown."""
    if left is None or right is None:
        return None
    if _is_number(left) and _is_number(right):
        return COMPARISONS[symbol](left, right)  # type: ignore[arg-type]
    if type(left) is type(right) and symbol in ("=", "<>"):
        return (left == right) == (symbol == "=")
    return False


def _is_none_of(value: Value, choices: Iterable[Value]) -> Value:
    """Return whether a value is known to differ from each of some others; unlike kinds do not differ."""
    if value is None:
        return None
    found: Value = True
    for choice in choices:
        if choice is None:
            found = None
        elif _compare("=", value, choice):
            return False
        elif found is not None and not _compare("<>", value, choice):
            found = False
    return found


def _calculate(symbol: str, left: Value, right: Value) -> Value:
    """Add, subtract, multiply or divide; anything but two numbers gives NULL."""
    if not _is_number(left) or not _is_number(right):
        return None
    try:
        return _ARITHMETIC[symbol](left, right)  # type: ignore[arg-type]
    except ArithmeticError:
        # By zero, or too large for a float.
        return None


def _like_pattern(pattern: str, escape: str) -> re.Pattern[str]:
    """Return what a LIKE pattern means: ``%`` any text, ``_`` any one character."""
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            parts.append(re.escape(next(characters, "")))
        else:
            parts.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
    return re.compile("".join(parts), re.DOTALL)


def _is_like(pattern: re.Pattern[str], value: Value) -> Value:
    """Return whether a string matches; of anything else that is unknown."""
    return pattern.fullmatch(value) is not None if isinstance(value, str) else None


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


Expression = Callable[[Message], Value]

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+|\d+(?:[eE][+-]?\d+)|\d+)
  | (?P<string>'(?:[^']|'')*')
  | (?P<name>[A-Za-z_$][\w$.]*|"(?:[^"]|"")*")
  | (?P<symbol><>|<=|>=|[=<>()+\-*/,])
)""",
    re.VERBOSE,
)
_DEEPEST: Final = 32
_KEYWORDS = {"AND", "OR", "NOT", "IS", "NULL", "LIKE", "ESCAPE", "BETWEEN", "IN", "TRUE", "FALSE"}


class Selector:
    """A parsed ``x-apache-selector`` or ``qpid.filter`` expression.

    Parameters
    ----------
    expression : str
        The text, such as ``"colour = 'red' AND weight > 2"``.

    Raises
    ------
    FramingErrorException
        501, if it cannot be parsed, or has more than 32 nested parentheses; the broker closes the whole
        connection then (QT-16).

    Examples
    --------
    >>> selector = Selector("colour IN ('red', 'blue') AND NOT weight > 2")
    >>> selector.accepts(Message(headers={"colour": "red", "weight": 2}))
    True
    >>> selector.accepts(Message(headers={"colour": "red"}))          # NULL is neither more nor less
    False
    """

    VOLATILE: ClassVar[tuple[str, ...]] = ("_evaluate",)

    __slots__ = ("expression", "_evaluate")

    def __init__(self, expression: str = "") -> None:
        self.expression = expression
        self._evaluate: Expression | None = _Parser(expression).parse()

    def accepts(self, message: Message) -> bool:
        """Return whether the expression is true for a message; unknown is not."""
        if self._evaluate is None:
            self._evaluate = _Parser(self.expression).parse()
        return self._evaluate(message) is True

    def matches(self, transfer: Transfer) -> bool:
        """Return whether the expression is true for a transfer's message."""
        return self.accepts(transfer.message)


class _Parser:
    """Recursive descent, one method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split(text)
        self._at = 0
        self._depth = 0

    def parse(self) -> Expression:
        if not self._tokens:
            # Nothing but spaces asks for nothing.
            return lambda message: True
        parsed = self._or()
        if self._at < len(self._tokens):
            raise self._error(f"unexpected {self._tokens[self._at][1]!r}")
        return parsed

    def _split(self, text: str) -> list[tuple[str, str]]:
        tokens: list[tuple[str, str]] = []
        at = 0
        end = len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                raise self._error(f"cannot read {text[at:]!r}")
            kind, value = found.lastgroup, found[found.lastgroup]
            if kind == "name" and value.upper() in _KEYWORDS:
                kind, value = "keyword", value.upper()
            tokens.append((kind, value))
            at = found.end()
        return tokens

    def _error(self, what: str) -> FramingErrorException:
        return FramingErrorException(f"Illegal selector: {self._text!r}: {what}")

    def _take(self, *wanted: str) -> str | None:
        if self._at < len(self._tokens):
            kind, value = self._tokens[self._at]
            if kind in ("keyword", "symbol") and value in wanted:
                self._at += 1
                return value
        return None

    def _expect(self, wanted: str) -> None:
        if self._take(wanted) is None:
            raise self._error(f"expected {wanted}")

    def _or(self) -> Expression:
        parts = [self._and()]
        while self._take("OR"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else lambda message: _any_of(part(message) for part in parts)

    def _and(self) -> Expression:
        parts = [self._not()]
        while self._take("AND"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else lambda message: _all_of(part(message) for part in parts)

    def _not(self) -> Expression:
        count = self._count("NOT")
        parsed = self._comparison()
        if not count:
            return parsed
        # Twice is not the same as not at all: a value that is no truth value becomes unknown.
        return lambda message: _times(count, _negate, parsed(message))

    def _count(self, wanted: str) -> int:
        count = 0
        while self._take(wanted):
            count += 1
        return count

    def _comparison(self) -> Expression:
        left = self._sum()
        symbol = self._take(*COMPARISONS)
        if symbol is not None:
            right = self._sum()
            return lambda message: _compare(symbol, left(message), right(message))
        if self._take("IS"):
            is_negated = self._take("NOT") is not None
            self._expect("NULL")
            return lambda message: (left(message) is None) != is_negated
        is_negated = self._take("NOT") is not None
        test = self._test(left, is_negated)
        if test is None:
            if is_negated:
                raise self._error("expected LIKE, BETWEEN or IN after NOT")
            return left
        return test

    def _test(self, left: Expression, is_negated: bool) -> Expression | None:
        if self._take("LIKE"):
            pattern = self._string()
            pattern_of = _like_pattern(pattern, self._string() if self._take("ESCAPE") else "")
            return _perhaps_not(lambda message: _is_like(pattern_of, left(message)), is_negated)
        if self._take("BETWEEN"):
            low = self._sum()
            self._expect("AND")
            high = self._sum()
            bounds = ((">=", low), ("<=", high))
            return _perhaps_not(
                lambda message: _all_of(_compare(s, left(message), bound(message)) for s, bound in bounds),
                is_negated,
            )
        if self._take("IN"):
            self._expect("(")
            choices = [self._sum()]
            while self._take(","):
                choices.append(self._sum())
            self._expect(")")
            if is_negated:
                return lambda message: _is_none_of(left(message), [choice(message) for choice in choices])
            return lambda message: _any_of(
                _compare("=", left(message), choice(message)) for choice in choices
            )
        return None

    def _sum(self) -> Expression:
        return self._chain(self._product, "+", "-")

    def _product(self) -> Expression:
        return self._chain(self._sign, "*", "/")

    def _chain(self, part: Callable[[], Expression], *symbols: str) -> Expression:
        first = part()
        rest: list[tuple[str, Expression]] = []
        while (symbol := self._take(*symbols)) is not None:
            rest.append((symbol, part()))
        return (lambda message: _calculated(message, first, rest)) if rest else first

    def _sign(self) -> Expression:
        count = self._count("-")
        self._take("+")
        parsed = self._primary()
        if not count:
            return parsed
        return lambda message: _times(count, lambda value: _calculate("-", 0, value), parsed(message))

    def _primary(self) -> Expression:
        if self._take("("):
            self._depth += 1
            if self._depth > _DEEPEST:
                raise self._error(f"more than {_DEEPEST} nested parentheses")
            inner = self._or()
            self._expect(")")
            self._depth -= 1
            return inner
        if self._at == len(self._tokens):
            raise self._error("it ends too early")
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "name":
            name = text[1:-1].replace('""', '"') if text.startswith('"') else text
            return lambda message: _property_value(message, name)
        value = self._literal(kind, text)
        return lambda message: value

    def _literal(self, kind: str, text: str) -> Value:
        if kind == "string":
            return text[1:-1].replace("''", "'")
        if kind == "number":
            # Python refuses to read an integer of some thousand digits.
            return int(text) if text.isdigit() and len(text) < 1000 else float(text)
        if text in ("TRUE", "FALSE", "NULL"):
            return {"TRUE": True, "FALSE": False, "NULL": None}[text]
        raise self._error(f"unexpected {text!r}")

    def _string(self) -> str:
        if self._at < len(self._tokens) and self._tokens[self._at][0] == "string":
            self._at += 1
            return self._tokens[self._at - 1][1][1:-1].replace("''", "'")
        raise self._error("expected a string")


def _perhaps_not(test: Expression, is_negated: bool) -> Expression:
    return (lambda message: _negate(test(message))) if is_negated else test


def _times(count: int, operation: Callable[[Value], Value], value: Value) -> Value:
    for _ in range(count):
        value = operation(value)
    return value


def _calculated(message: Message, first: Expression, rest: list[tuple[str, Expression]]) -> Value:
    value = first(message)
    for symbol, part in rest:
        value = _calculate(symbol, value, part(message))
    return value
