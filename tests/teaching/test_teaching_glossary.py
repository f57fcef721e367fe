"""The glossary knows every statistic, every setting and every option that the book uses."""

import dataclasses
import re

import pytest

from qflow.broker import BrokerOptions, statistics
from qflow.kit import RefusalError
from qflow.teaching.glossary import look_up, terms
from qflow.teaching.rules import rule_book

# Not settings: modules, and what management answers with.
NOT_SETTINGS = {"qpid.messaging", "qpid.message_group_queue"}


def said_in_sources(root, pattern):
    """Return what chapters and exercises say that is like this: a set that must not be empty."""
    paths = [path for room in ("notebooks", "exercises") for path in (root / room / "sources").glob("*.py")]
    said = {word for path in paths for word in re.findall(pattern, path.read_text(encoding="utf-8"))}
    assert said, f"no chapter says anything like {pattern}"
    return said


def test_every_statistic_is_explained():
    known = {term.broker for term in terms() if term.kind == "statistic"}
    for record in vars(statistics).values():
        if dataclasses.is_dataclass(record):
            assert {field.name for field in dataclasses.fields(record)} <= known, record


def test_every_option_is_explained():
    known = {term.broker.replace("-", "_") for term in terms() if term.kind == "option"}
    assert {field.name for field in dataclasses.fields(BrokerOptions)} <= known


@pytest.mark.parametrize(
    ("kind", "pattern", "strange"),
    [
        # Misspellings with hyphens, which exercises are about, are no settings.
        ("setting", r"\bqpid\.[a-z_]+[a-z](?![\w-])", NOT_SETTINGS),
        ("option", r"--(default-[a-z-]+[a-z])", {"default-msg-group"}),
    ],
)
def test_every_setting_and_option_in_chapters_and_exercises_is_explained(root, kind, pattern, strange):
    known = {term.broker for term in terms() if term.kind == kind}
    assert said_in_sources(root, pattern) - strange - known == set()


def test_every_statistic_that_chapters_read_is_explained(root):
    known = {term.broker for term in terms()}
    camel = {name for name in known if re.search(r"[a-z][A-Z]", name)}
    assert {"flowStopped", "flowStoppedCount", "msgDepth"} <= camel
    used = said_in_sources(root, r"\b(?:msg|byte|discards|flow)[A-Z][A-Za-z]+\b")
    assert {"flowStopped", "msgDepth"} <= used <= known


def test_the_words_of_the_book_are_there():
    words = {term.term for term in terms() if term.kind == "word"}
    said = "completion accept held ON OFF capacity prefetch owner scenario workload trace client+log"
    assert {word.replace("+", " ") for word in said.split()} <= words


def test_terms_are_unique_have_a_meaning_and_cite_real_rules():
    found = terms()
    assert len({(term.term, term.kind) for term in found}) == len(found)
    for term in found:
        assert term.meaning.endswith("."), term
        assert set(term.rules) <= set(rule_book()), term
        assert term.kind in {"word", "setting", "option", "statistic"}


def test_a_term_is_found_by_name_or_spelling():
    assert look_up("QPID.flow_stop_count").term == "stop in messages"
    assert "FC-15" in repr(look_up("held"))
    with pytest.raises(RefusalError, match="no 'xyzzy'"):
        look_up("xyzzy")
