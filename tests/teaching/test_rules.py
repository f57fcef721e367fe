"""Every rule of the book is held by a test, or there is an argument why none can (qflow rules)."""

from __future__ import annotations

from pathlib import Path

import pytest

from qflow.kit import RefusalError
from qflow.teaching import rules
from qflow.teaching.rules import ARGUED, cited_rules, rule_titles, show, uncovered

TESTS = Path(__file__).resolve().parent.parent


def test_every_rule_has_a_test_or_an_argument():
    assert uncovered(TESTS) == []


def test_no_argument_excuses_a_rule_that_has_a_test_or_does_not_exist():
    assert set(ARGUED) <= set(rule_titles())
    assert not set(ARGUED) & set(cited_rules(TESTS))


def test_a_rule_is_found_in_a_name_a_table_and_a_docstring(tmp_path):
    (tmp_path / "test_x.py").write_text(
        "import pytest\n"
        'TABLE = [pytest.param(1, id="LP-02 exactly full")]\n'
        '@pytest.mark.parametrize("n", TABLE)\n'
        "def test_fc_14(n):\n"
        '    """CM-3 is written short."""\n'
        "    assert n\n"
    )
    assert cited_rules(tmp_path) == {rule: ["test_x::test_fc_14"] for rule in ("CM-03", "FC-14", "LP-02")}


def test_the_table_is_printed_with_titles_tests_and_a_closing_count(capsys):
    assert show() == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("FC-14   ON when a message makes the level exceed a stop threshold")
    assert lines[at + 1].startswith("        test_")
    assert lines[-1] == f"{len(rule_titles())} of {len(rule_titles())} rules have a test or an argument"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("FC-99,full, or nearly so", "line 2: an id and a title, got 3 columns"),
        ("FC-99", "line 2: an id and a title, got 1 columns"),
        ("FC-14,one\nFC-14,two", "line 3: FC-14 is there already"),
    ],
)
def test_a_list_that_would_lose_something_is_refused(tmp_path, monkeypatch, line, told):
    (tmp_path / "rules.csv").write_text(f"rule,title\n{line}\n")
    monkeypatch.setattr(rules, "kit_path", lambda name: tmp_path)
    with pytest.raises(RefusalError, match=told):
        rules.rule_titles()
