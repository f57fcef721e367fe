"""Which keys and headers match: topic patterns (EX-06) and header bindings (EX-07)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from uuid import UUID

from qflow.broker.errors import InternalErrorException
from qflow.broker.message import HeaderValue


def normalize_pattern(pattern: str) -> str:
    """Return the form in which the broker keeps a topic pattern: every ``#`` behind the ``*`` (EX-06).

    Examples
    --------
    >>> normalize_pattern("#.*.#.*.#.#.*"), normalize_pattern("a.*.#.*.#")
    ('*.*.*.#', 'a.*.*.#')
    """
    words: list[str] = []
    has_hash = False
    for word in pattern.split("."):
        if word == "#":
            has_hash = True
        elif word == "*":
            words.append(word)
        else:
            if has_hash:
                words.append("#")
                has_hash = False
            words.append(word)
    if has_hash:
        words.append("#")
    return ".".join(words)


TopicRank = tuple[int, ...]
"""Where in the broker's tree of patterns a key finds one: the smaller, the earlier."""

_HASH, _STAR, _WORD = 0, 1, 2
_HERE, _BELOW = -1, 0
_LAST = 1 << 30


def topic_matches(pattern: str, key: str) -> bool:
    """Return whether a routing key matches a topic pattern.

    ``*`` stands for exactly one word, which may be empty; ``#`` for any number of words.

    Examples
    --------
    >>> topic_matches("a.#", "a"), topic_matches("*.x", ".x"), topic_matches("a.#.b.*", "a.b")
    (True, True, False)
    """
    return topic_rank(pattern, key) is not None


@lru_cache(maxsize=4096)
def topic_rank(pattern: str, key: str) -> TopicRank | None:
    """Return when a key's way through the tree of patterns comes to one; None if it never does.

    At each word the broker tries ``#`` before ``*``, and ``*`` before the word itself.

    Examples
    --------
    >>> sorted(["a.b", "a.*", "#", "a.#"], key=lambda pattern: topic_rank(pattern, "a.b"))
    ['#', 'a.#', 'a.*', 'a.b']
    """
    return _rank_of(tuple(pattern.split(".")), tuple(key.split(".")))


def _rank_of(pattern: tuple[str, ...], words: tuple[str, ...]) -> TopicRank | None:
    head, rest = pattern[0], pattern[1:]
    if head == "#":
        if not rest:
            return (_HASH, _LAST)
        for skipped in range(len(words)):
            found = _rank_of(rest, words[skipped:])
            if found is not None:
                return (_HASH, skipped, *found)
        return None
    if not words or head not in ("*", words[0]):
        return None
    branch = _STAR if head == "*" else _WORD
    if not rest:
        return (branch, _HERE) if len(words) == 1 else None
    found = _rank_of(rest, words[1:])
    return None if found is None else (branch, _BELOW, *found)


def check_header_arguments(arguments: Mapping[str, HeaderValue] | None) -> None:
    """Refuse binding arguments without a proper ``x-match``.

    Raises
    ------
    InternalErrorException
        541, as the broker has it (EX-03).
    """
    match = (arguments or {}).get("x-match", "")
    if match not in ("all", "any"):
        what = "or missing x-match value binding" if isinstance(match, str) else "x-match binding format"
        raise InternalErrorException(f'Invalid {what} to headers exchange. Must be a string ["all" or "any"]')


def same_arguments(left: Mapping[str, HeaderValue], right: Mapping[str, HeaderValue]) -> bool:
    """Return whether two headers bindings ask for the same; ``qpid.`` keys do not count (EX-07, EX-12).

    Examples
    --------
    >>> same_arguments({"x-match": "all", "n": 1, "qpid.subject": "s"}, {"n": 1, "x-match": "all"})
    True
    >>> same_arguments({"x-match": "all", "n": 1}, {"x-match": "all", "n": True})
    False
    """
    return _wanted(left) == _wanted(right)


def _wanted(arguments: Mapping[str, HeaderValue]) -> dict[str, tuple[type, HeaderValue]]:
    return {key: (type(value), value) for key, value in arguments.items() if not key.startswith("qpid.")}


def headers_match(arguments: Mapping[str, HeaderValue], headers: Mapping[str, HeaderValue]) -> bool:
    """Return whether a message's headers satisfy a headers binding.

    ``all`` with nothing to match matches everything, ``any`` with nothing matches nothing; keys
    that start with ``qpid.`` are ignored (EX-07).

    Examples
    --------
    >>> headers_match({"x-match": "all", "p": "v"}, {"p": "v", "more": 1})
    True
    >>> headers_match({"x-match": "any"}, {})
    False
    """
    wanted = [(k, v) for k, v in arguments.items() if k != "x-match" and not k.startswith("qpid.")]
    found = [key in headers and _value_matches(value, headers[key]) for key, value in wanted]
    return all(found) if arguments["x-match"] == "all" else any(found)


def _value_matches(wanted: HeaderValue, got: HeaderValue) -> bool:
    if isinstance(got, list | dict | UUID):
        return False
    if wanted is None:
        return True
    if isinstance(wanted, str) or isinstance(got, str):
        return wanted == got
    numbers = isinstance(wanted, int | float) and isinstance(got, int | float)
    return numbers and isinstance(wanted, float) == isinstance(got, float) and wanted == got
