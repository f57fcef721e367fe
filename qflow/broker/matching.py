"""Which keys and headers match: topic patterns (EX-06) and header bindings (EX-07)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

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


@lru_cache(maxsize=4096)
def topic_matches(pattern: str, key: str) -> bool:
    """Return whether a routing key matches a topic pattern.

    ``*`` stands for exactly one word, which may be empty; ``#`` for any number of words.

    Examples
    --------
    >>> topic_matches("a.#", "a"), topic_matches("*.x", ".x"), topic_matches("a.#.b.*", "a.b")
    (True, True, False)
    """
    return _words_match(tuple(pattern.split(".")), tuple(key.split(".")))


def _words_match(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(_words_match(pattern[1:], words[taken:]) for taken in range(len(words) + 1))
    if not words or pattern[0] not in ("*", words[0]):
        return False
    return _words_match(pattern[1:], words[1:])


def check_header_arguments(arguments: Mapping[str, HeaderValue] | None) -> None:
    """Refuse binding arguments without a proper ``x-match``.

    Raises
    ------
    InternalErrorException
        541, as the broker has it (EX-03).
    """
    if (arguments or {}).get("x-match") not in ("all", "any"):
        raise InternalErrorException(
            'Invalid or missing x-match value binding to headers exchange. Must be a string ["all" or "any"]'
        )


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
    if wanted is None:
        return True
    if isinstance(wanted, str) or isinstance(got, str):
        return wanted == got
    numbers = isinstance(wanted, int | float) and isinstance(got, int | float)
    return numbers and isinstance(wanted, float) == isinstance(got, float) and wanted == got
