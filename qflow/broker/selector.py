"""Selectors: conditions that a message must meet for a subscription or a queue (QT-16, RF-35).

The language is the SQL-92 subset of JMS: comparisons, AND, OR, NOT, IS NULL, LIKE, BETWEEN, IN and arithmetic
over the message's application headers, with SQL's three truth values.  This module has, in this order:

1. *Names*: those that begin with ``amqp.`` or ``JMS`` are properties (:data:`NAMES`, :data:`_JMS_NAMES`), and
   all others are headers.
2. *Values*: 64-bit integers that wrap, doubles, texts, booleans, and NULL, which is also the truth value
   *unknown*; and the operators on them.
3. *Tokens*: their kinds (:data:`TOKENS`), in the order in which they are tried.
4. *Grammar*: a parser with one method for each rule, which returns a function of the message.

The parser reads one token at a time, so that it reports the first error, in the broker's words: the last
token read, and the reason.  Only parentheses nest, and only to a depth at which neither parsing nor
evaluation can exhaust the stack.
"""

from __future__ import annotations

import math
import operator
import re
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Final, NamedTuple

from qflow.broker.errors import BrokerFailure, FramingErrorException
from qflow.broker.message import HeaderValue, Message, Transfer, encodable, show
from qflow.broker.restorable import Frozen
from qflow.broker.snapshot import Refused, Text

# Names


class _SelectorInput(NamedTuple):
    """The input of a selector: a transfer, its delivery count, and the broker's start in seconds (RF-46)."""

    transfer: Transfer
    delivery_count: int = -1
    epoch: int = 0


Value = HeaderValue
"""The value of a name or an expression; None is SQL's NULL, and the truth value *unknown*."""


def _read_subject(subject: _SelectorInput) -> Value:
    """Return the routing key if the exchange has a name, or else the header qpid.subject (RF-42)."""
    message = subject.transfer.message
    if subject.transfer.exchange:
        return message.routing_key or None
    named = message.header("qpid.subject")
    if isinstance(named, int) and not isinstance(named, bool):
        return str(named)
    return named if isinstance(named, str) and named else None


def _read_destination(subject: _SelectorInput) -> Value:
    """Return the exchange or else the routing key; for AMQP 1.0 the property ``to``, or NULL (RF-53)."""
    transfer = subject.transfer
    if transfer.came_on_link:
        return transfer.message.to
    return transfer.exchange or transfer.message.routing_key or None


def _read_expiry(subject: _SelectorInput) -> Value:
    expiration = subject.transfer.expiration
    return 0 if expiration is None else subject.epoch * 1000 + expiration // 1000


NAMES: Final[dict[str, Callable[[_SelectorInput], Value]]] = {
    "amqp.delivery_mode": lambda s: "PERSISTENT" if s.transfer.message.durable else "NON_PERSISTENT",
    "amqp.subject": _read_subject,
    "amqp.redelivered": lambda s: s.delivery_count >= 0,
    "amqp.priority": lambda s: s.transfer.message.priority or 0,
    "amqp.to": _read_destination,
    "amqp.absolute_expiry_time": _read_expiry,
    "amqp.creation_time": lambda s: (s.transfer.message.timestamp or 0) * 1000,
}
"""Properties of a message by name (RF-36, RF-42); any other name that begins with ``amqp.`` is NULL."""

_JMS_NAMES: Final[dict[str, str]] = {
    "JMSType": "amqp.subject",
    "JMSCorrelationID": "amqp.correlation_id",
    "JMSMessageID": "amqp.message_id",
    "JMSDeliveryMode": "amqp.delivery_mode",
    "JMSRedelivered": "amqp.redelivered",
    "JMSPriority": "amqp.priority",
    "JMSDestination": "amqp.to",
    "JMSTimestamp": "amqp.creation_time",
    "JMSExpiration": "amqp.absolute_expiry_time",
}
"""The JMS names of these properties; any other name that begins with ``JMS`` is NULL."""

_FATAL: Final = frozenset(("amqp.message_id", "amqp.correlation_id"))
"""Names at which the real broker crashes when it evaluates the selector; they are refused here."""


def _look_up(name: str) -> Expression:
    """Return the function that looks up a name in a message: a property or an application header."""
    if name.startswith(("amqp.", "JMS")):
        meant = _JMS_NAMES.get(name, name)
        if meant in _FATAL:
            text = f"a selector on {name} makes the real broker crash, so it is refused here"
            raise BrokerFailure(f"{text}; select by a header", "crash")
        return NAMES.get(meant, lambda subject: None)

    def header(subject: _SelectorInput) -> Value:
        value = subject.transfer.message.header(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= _BEYOND:
            return float(value)
        return value if isinstance(value, bool | int | float | str) else None

    return header


Expression = Callable[[_SelectorInput], Value]

# Values

_BEYOND: Final = 1 << 63

_COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def wrap(value: int) -> int:
    """Return an integer as a signed 64-bit integer, which wraps on overflow."""
    return (value + _BEYOND) % (1 << 64) - _BEYOND


def _negate(value: Value) -> Value:
    return not value if isinstance(value, bool) else None


def _join(parts: list[Expression], subject: _SelectorInput, decisive: bool) -> Value:
    """Return the OR (if ``decisive`` is True) or AND of parts, without evaluating more than necessary."""
    # A part that is not evaluated cannot fail by a division by 0.
    other = not decisive
    found: Value = other
    for part in parts:
        value = part(subject)
        if value is decisive:
            return decisive
        if value is not other:
            found = None
    return found


def _compare(symbol: str, left: Value, right: Value) -> Value:
    """Return the result of a comparison: False for different types even with <>, unknown for NULL."""
    if left is None or right is None:
        return None
    if isinstance(left, int | float) and isinstance(right, int | float):
        if isinstance(left, bool) is not isinstance(right, bool):
            return False
        if isinstance(left, bool):
            return symbol in ("=", "<>") and (left == right) == (symbol == "=")
        if isinstance(left, float) or isinstance(right, float):
            # Converted to doubles, as Python would compare an int and a float exactly.
            return _COMPARISONS[symbol](float(left), float(right))
        return _COMPARISONS[symbol](left, right)
    if type(left) is type(right) and symbol in ("=", "<>"):
        return (left == right) == (symbol == "=")
    return False


def _is_between(value: Value, low: Value, high: Value) -> Value:
    """Return whether a value is between two others, or unknown if any of them is NULL (RF-35)."""
    if value is None or low is None or high is None:
        return None
    return _compare(">=", value, low) is True and _compare("<=", value, high) is True


def _is_in(value: Value, choices: list[Expression], subject: _SelectorInput, is_negated: bool) -> Value:
    """Return whether a value equals any choice, or if negated differs from all; evaluate lazily."""
    if value is None:
        return None
    found: Value = is_negated
    for part in choices:
        choice = part(subject)
        if choice is None:
            found = None
        elif _compare("=", value, choice):
            return not is_negated
        elif is_negated and found is not None and not _compare("<>", value, choice):
            # Values of different types do not count as different.
            found = False
    return found


def _calculate(symbol: str, left: Value, right: Value) -> Value:
    """Add, subtract, multiply or divide two numbers; return NULL for other values."""
    # A division of an integer by 0 raises ZeroDivisionError, which makes the whole selector false.
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return None
    if isinstance(left, bool) or isinstance(right, bool):
        return None
    if isinstance(left, int) and isinstance(right, int):
        return wrap(_ARITHMETIC.get(symbol, _divide_whole)(left, right))
    value: float = _ARITHMETIC.get(symbol, _divide_double)(float(left), float(right))
    return value


_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def _divide_whole(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _divide_double(left: float, right: float) -> float:
    """Divide doubles as IEEE 754 does: a division by 0 gives a signed infinity, or NaN (RF-35)."""
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _minus(value: Value) -> Value:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return wrap(-value)
    return -value


class _Run:
    """A part of a LIKE pattern between two ``%``: bytes, of which some match any byte."""

    __slots__ = ("text", "wild", "masks")

    def __init__(self, text: bytes, wild: tuple[int, ...]) -> None:
        self.text = text
        self.wild = wild
        # For each byte the places of the run that it matches, as bits; under -1 those that any byte matches.
        self.masks: dict[int, int] = {}
        if wild:
            anywhere = sum([1 << place for place in wild])
            self.masks[-1] = anywhere
            for place, byte in enumerate(text):
                if place not in wild:
                    self.masks[byte] = self.masks.get(byte, anywhere) | 1 << place

    def is_at(self, text: bytes, at: int) -> bool:
        """Return whether the run matches a text at index ``at``."""
        if at < 0 or at + len(self.text) > len(text):
            return False
        return self.find(text, at, at + len(self.text)) >= 0

    def find(self, text: bytes, start: int, end: int) -> int:
        """Return the end of the first match between the indices ``start`` and ``end``, or -1."""
        if not self.wild:
            found = text.find(self.text, start, end)
            return found + len(self.text) if found >= 0 else -1
        # The shift-and algorithm (Baeza-Yates and Gonnet) follows all partial matches at once, a bit for
        # each. A search that starts again at every byte could be made to take minutes by a client.
        masks, anywhere, goal, state = self.masks, self.masks[-1], 1 << len(self.text) - 1, 0
        for place in range(start, end):
            state = (state << 1 | 1) & masks.get(text[place], anywhere)
            if state & goal:
                return place + 1
        return -1


def _compile_pattern(pattern: str, escape: str = "") -> list[_Run]:
    """Split a LIKE pattern at each ``%`` (any bytes) into runs, in which ``_`` matches any byte (RF-43)."""
    runs: list[_Run] = []
    text = bytearray()
    wild: list[int] = []
    is_escaped = False
    for character in pattern:
        if escape and character == escape:
            is_escaped = True
            continue
        if character == "%" and not is_escaped:
            runs.append(_Run(bytes(text), tuple(wild)))
            text, wild = bytearray(), []
        else:
            if character == "_" and not is_escaped:
                wild.append(len(text))
            text += character.encode()
        is_escaped = False
    return [*runs, _Run(bytes(text), tuple(wild))]


def _is_like(runs: list[_Run], value: Value) -> Value:
    """Return whether a text's UTF-8, up to a NUL, matches (RF-43); unknown for a value of another type."""
    if not isinstance(value, str):
        return None
    text = value.encode("utf-8", "surrogatepass").partition(b"\0")[0]
    first, last = runs[0], runs[-1]
    if len(runs) == 1:
        return len(text) == len(first.text) and first.is_at(text, 0)
    # The earliest match of each run leaves the most text for later runs, so there is no backtracking.
    place, end = len(first.text), len(text) - len(last.text)
    if place > end or not (first.is_at(text, 0) and last.is_at(text, end)):
        return False
    for run in runs[1:-1]:
        place = run.find(text, place, end)
        if place < 0:
            return False
    return True


# Tokens

_HEX, _WHOLE = r"0[xX][\da-fA-F][\da-fA-F_]*", r"[1-9][\d_]*"
_DECIMAL = rf"(?:(?:0|{_WHOLE})\.[\d_]*|\.\d[\d_]*)"

TOKENS: Final[tuple[tuple[str, str], ...]] = (
    # A number that begins with a prefix or an exponent sign, but has no digits after it.
    ("illegal", rf"0[xX](?![\da-fA-F])|0[bB](?![01])|(?:{_HEX}[pP]|(?:{_DECIMAL}|{_WHOLE})[eE])(?![+-]?\d)"),
    ("approximate", rf"{_HEX}[pP][+-]?\d+[fFdD]?"),
    ("approximate", rf"{_DECIMAL}(?:[eE][+-]?\d+)?[fFdD]?"),
    ("approximate", rf"{_WHOLE}(?:[eE][+-]?\d+[fFdD]?|[fFdD])"),
    ("exact", rf"(?:{_HEX}|0[bB][01][01_]*|0[0-7_]*|{_WHOLE})[lL]?"),
    ("string", r"'(?:[^']|'')*'"),
    ("quoted", r'"(?:[^"]|"")*"'),
    ("name", r"[A-Za-z_$][\w$.]*"),
    ("symbol", r"<>|<=|>=|[=<>()+\-*/,]"),
)
"""The kinds of tokens, each with its regular expression, in the order in which they are tried (RF-35)."""

_KEYWORDS: Final = frozenset(
    ("AND", "OR", "NOT", "IS", "NULL", "LIKE", "ESCAPE", "BETWEEN", "IN", "TRUE", "FALSE")
)

_TOKENS = tuple((kind, re.compile(spelling, re.ASCII)) for kind, spelling in TOKENS)
_SPACE = re.compile(r"\s*", re.ASCII)
_END: Final = "end"


class _SelectorToken(NamedTuple):
    """A token of a selector: its kind, and its text without quotes."""

    kind: str
    text: str

    @property
    def keyword(self) -> str:
        """The token's symbol, or its keyword in capitals, or "" for any other token."""
        if self.kind == "symbol":
            return self.text
        word = self.text.upper() if self.kind == "name" else ""
        return word if word in _KEYWORDS else ""


def _read_token(text: str, at: int) -> tuple[_SelectorToken, int]:
    """Return the next token of a text from index ``at`` on, and the index after it."""
    at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    if at == len(text):
        return _SelectorToken(_END, "<END>"), at
    for kind, spelling in _TOKENS:
        found = spelling.match(text, at)
        if found is not None and kind != "illegal":
            word = found[0]
            if kind in ("string", "quoted"):
                word = word[1:-1].replace(word[0] * 2, word[0])
            return _SelectorToken(kind, word), found.end()
        if found is not None:
            break
    raise FramingErrorException("Found illegal character")


def _read_exact(text: str, is_negative: bool = False) -> int:
    """Return the value of an integer literal; raise ValueError if it is too large."""
    digits = text.rstrip("lL").replace("_", "")
    base = 10
    if len(digits) > 1 and digits[0] == "0":
        base = {"x": 16, "b": 2}.get(digits[1].lower(), 8)
    # int() raises an error for thousands of decimal digits.
    value = int(digits, base) if base != 10 or len(digits) < 20 else 1 << 64
    value = -value if is_negative else value
    fits = -_BEYOND <= value < _BEYOND if base == 10 else abs(value) < 1 << 64
    if not fits:
        raise ValueError("integer literal too big")
    return wrap(value)


def _read_approximate(text: str) -> float:
    """Return the value of a floating-point literal; raise ValueError if it overflows or underflows."""
    digits = text.rstrip("fFdD").replace("_", "")
    is_hexadecimal = digits[1:2] in ("x", "X")
    try:
        value = float.fromhex(digits) if is_hexadecimal else float(digits)
    except OverflowError:
        value = math.inf
    mantissa = re.split("[pP]" if is_hexadecimal else "[eE]", digits)[0]
    if math.isinf(value) or (value < sys.float_info.min and mantissa.strip("0.xX")):
        raise ValueError("floating literal overflow/underflow")
    return value


# Grammar

_DEEPEST: Final = 32


class Selector(Frozen):
    """A parsed ``x-apache-selector`` or ``qpid.filter`` expression.

    >>> selector = Selector("colour IN ('red', 'blue') AND NOT weight > 2")
    >>> selector.accepts(Message(headers={"colour": "red", "weight": 2}))
    True
    >>> selector.accepts(Message(headers={"colour": "red"}))          # NULL is neither more nor less
    False
    """

    VOLATILE: ClassVar[tuple[str, ...]] = ("_evaluate",)

    __match_args__: ClassVar[tuple[str, ...]] = ("expression",)

    __slots__ = ("expression", "_evaluate")

    def __init__(self, expression: Text = "") -> None:
        self.expression = encodable("expression", expression)
        self._evaluate: Expression | None = _Parser(self.expression).parse()

    def accepts(self, message: Message | Refused) -> bool:
        """Return whether the expression is true for a message that was never delivered."""
        if not isinstance(message, Message):
            raise TypeError(f"message must be a Message, got {show(message)}")
        return self.matches(Transfer(message=message))

    def matches(self, transfer: Transfer, delivery_count: int = -1, epoch: int = 0) -> bool:
        """Return whether the expression is true, not unknown or a division by 0, for a transfer (RF-35)."""
        if self._evaluate is None:
            self._evaluate = _Parser(self.expression).parse()
        try:
            return self._evaluate(_SelectorInput(transfer, delivery_count, epoch)) is True
        except ZeroDivisionError:
            return False


class _Parser:
    """A recursive descent parser with one method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._next: _SelectorToken | None = None
        self._last = _SelectorToken(_END, "<END>")
        self._depth = 0

    def parse(self) -> Expression:
        if self._peek().kind == _END:
            # An empty selector matches every message.
            return lambda subject: True
        parsed = self._or()
        if self._read().kind != _END:
            raise self._error("extra input")
        return parsed

    def _peek(self) -> _SelectorToken:
        if self._next is None:
            self._next, self._at = _read_token(self._text, self._at)
        return self._next

    def _read(self) -> _SelectorToken:
        self._last = self._peek()
        self._next = None
        return self._last

    def _error(self, why: str) -> FramingErrorException:
        """Return the exception for an invalid last token, in the broker's words (RF-36)."""
        return FramingErrorException(f"Illegal selector: '{self._last.text}': {why}")

    def _take(self, *wanted: str) -> str:
        """Read and return the next token if it is one of these symbols or keywords, or return ""."""
        keyword = self._peek().keyword
        if keyword and keyword in wanted:
            self._read()
            return keyword
        return ""

    def _expect(self, wanted: str, why: str) -> None:
        if self._read().keyword != wanted:
            raise self._error(why)

    def _count(self, wanted: str) -> int:
        count = 0
        while self._take(wanted):
            count += 1
        return count

    def _or(self) -> Expression:
        return self._join("OR", self._and, True)

    def _and(self) -> Expression:
        return self._join("AND", self._not, False)

    def _join(self, word: str, part: Callable[[], Expression], decisive: bool) -> Expression:
        parts = [part()]
        while self._take(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else lambda subject: _join(parts, subject, decisive)

    def _not(self) -> Expression:
        count = self._count("NOT")
        parsed = self._comparison()
        # A double NOT is not the same as none: it turns a value that is not a boolean into unknown.
        return _repeat(count, _negate, parsed)

    def _comparison(self) -> Expression:
        left = self._sum()
        symbol = self._take(*_COMPARISONS)
        if symbol:
            right = self._sum()
            return lambda subject: _compare(symbol, left(subject), right(subject))
        if self._take("IS"):
            is_negated = bool(self._take("NOT"))
            self._expect("NULL", "expected NULL or NOT NULL after IS")
            return lambda subject: (left(subject) is None) != is_negated
        is_negated = bool(self._take("NOT"))
        if not is_negated and self._peek().keyword not in ("LIKE", "BETWEEN", "IN"):
            return left
        match self._read().keyword:
            case "LIKE":
                return self._like(left, is_negated)
            case "BETWEEN":
                return self._between(left, is_negated)
            case "IN":
                return self._in(left, is_negated)
        raise self._error("expected LIKE, IN or BETWEEN")

    def _like(self, left: Expression, is_negated: bool) -> Expression:
        text = self._string("LIKE")
        escape = ""
        if self._take("ESCAPE"):
            escape = self._string("ESCAPE")
            if len(escape.encode()) > 1:
                raise self._error("single character string required after ESCAPE")
            if escape in ("%", "_"):
                raise self._error("'%' and '_' are not allowed as ESCAPE characters")
        pattern = _compile_pattern(text, escape)
        return _repeat(is_negated, _negate, lambda subject: _is_like(pattern, left(subject)))

    def _between(self, left: Expression, is_negated: bool) -> Expression:
        low = self._sum()
        self._expect("AND", "expected AND after BETWEEN")
        high = self._sum()
        return _repeat(
            is_negated, _negate, lambda subject: _is_between(left(subject), low(subject), high(subject))
        )

    def _in(self, left: Expression, is_negated: bool) -> Expression:
        self._expect("(", "missing '(' after IN")
        choices = [self._sum()]
        while self._take(","):
            choices.append(self._sum())
        self._expect(")", "missing ',' or ')' after IN")
        return lambda subject: _is_in(left(subject), choices, subject, is_negated)

    def _sum(self) -> Expression:
        return self._chain(self._product, "+", "-")

    def _product(self) -> Expression:
        return self._chain(self._read_signed, "*", "/")

    def _chain(self, part: Callable[[], Expression], *symbols: str) -> Expression:
        first = part()
        rest: list[tuple[str, Expression]] = []
        while symbol := self._take(*symbols):
            rest.append((symbol, part()))
        return (lambda subject: _calculate_all(subject, first, rest)) if rest else first

    def _read_signed(self) -> Expression:
        minuses = self._count("-")
        if minuses and self._peek().kind == "exact":
            # The last minus is part of the literal, as the smallest integer has no positive counterpart.
            return _repeat(minuses - 1, _minus, self._literal(is_negative=True))
        if self._take("("):
            return _repeat(minuses, _minus, self._read_nested())
        # A plus has no effect, but may only precede a name or a literal (RF-35).
        self._take("+")
        return _repeat(minuses, _minus, self._literal())

    def _read_nested(self) -> Expression:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"more than {_DEEPEST} nested parentheses")
        inner = self._or()
        self._expect(")", "missing ')' after '('")
        self._depth -= 1
        return inner

    def _literal(self, is_negative: bool = False) -> Expression:
        token = self._read()
        keyword = token.keyword
        if token.kind == _END or (keyword and keyword not in ("TRUE", "FALSE")):
            raise self._error("expected literal or identifier")
        if not keyword and token.kind in ("name", "quoted"):
            return _look_up(token.text)
        value = self._constant(token, is_negative)
        return lambda subject: value

    def _constant(self, token: _SelectorToken, is_negative: bool) -> Value:
        if token.keyword:
            return token.keyword == "TRUE"
        try:
            if token.kind == "exact":
                return _read_exact(token.text, is_negative)
            if token.kind == "approximate":
                return _read_approximate(token.text)
        except ValueError as error:
            why = str(error)
        else:
            return token.text
        raise self._error(why)

    def _string(self, after: str) -> str:
        token = self._read()
        if token.kind != "string":
            raise self._error(f"expected string after {after}")
        return token.text


def _repeat(count: int, operation: Callable[[Value], Value], part: Expression) -> Expression:
    if not count:
        return part

    def value(subject: _SelectorInput) -> Value:
        found = part(subject)
        for _ in range(count):
            found = operation(found)
        return found

    return value


def _calculate_all(subject: _SelectorInput, first: Expression, rest: list[tuple[str, Expression]]) -> Value:
    value = first(subject)
    for symbol, part in rest:
        value = _calculate(symbol, value, part(subject))
    return value
