"""The rule book is whole, what cites it finds it there, and tests hold the engine to each rule."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from commands import output_of

from qflow.broker.errors import FramingErrorException, InvalidConversion, SessionException
from qflow.broker.options import DIALS, MODELLED, NOT_MODELLED, BrokerOptions
from qflow.broker.settings import QueueSettings
from qflow.configuration.declaration import is_understood
from qflow.configuration.qpid_config import OPTIONS
from qflow.kit import RefusalError
from qflow.maintain.reference import _declare_arguments
from qflow.teaching import rules
from qflow.teaching.rules import (
    RULE,
    _find_uncovered,
    cited_rules,
    normalize,
    rule,
    rule_book,
    rule_table,
)
from qflow.trace.explain.chain import AREAS

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parent
TEXTS = [
    *(ROOT / "qflow").rglob("*.py"),
    *HERE.rglob("*.py"),
    *(ROOT / "notebooks" / "sources").glob("*.py"),
    *(ROOT / "exercises" / "sources").glob("*.py"),
    ROOT / "hatch_build.py",
    ROOT / "README.md",
    ROOT / "data" / "README.md",
    *(ROOT / "data").rglob("*.csv"),
]
"""What may cite the rule book."""

INVENTED = {"FC-99"}
"""Ids that this file makes up."""


def test_every_rule_has_a_test_or_says_why_not():
    assert _find_uncovered(HERE) == []


def test_no_rule_says_why_it_has_no_test_and_has_one():
    assert not {name for name, rule in rule_book().items() if rule.untested} & set(cited_rules(HERE))


def test_what_is_not_built_is_a_correction_not_yet_made():
    assert all(name.startswith("RF-") for name, one in rule_book().items() if one.untested == "not yet built")


def test_areas_follow_each_other_and_are_numbered_without_a_gap():
    numbers: dict[str, list[int]] = {}
    for name in rule_book():
        area, number = name.split("-")
        numbers.setdefault(area, []).append(int(number))
    assert list(numbers) == list(AREAS)
    assert all(found == list(range(1, len(found) + 1)) for found in numbers.values())


def test_every_sentence_is_whole():
    for one in rule_book().values():
        assert one.sentence.endswith((".", ".'", '."')), one.rule


def test_every_id_that_is_cited_is_in_the_rule_book():
    tables = {row[0] for table in ("golden-scenarios", "contradictions") for row in rule_table(table)}
    known = {*rule_book(), *tables, *INVENTED}
    unknown = {}
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        cited = {*map(normalize, RULE.findall(text)), *re.findall(r"(?<![\w-])[GX]-\d\d(?![\w-])", text)}
        unknown[path] = cited - known
    assert {path: ids for path, ids in unknown.items() if ids} == {}


def test_a_citation_of_a_place_leads_there():
    """Places are cited as rules.md#order-of-events; numbers of chapters that are nowhere are not."""
    page = (ROOT / "notebooks" / "reference" / "rules.md").read_text(encoding="utf-8")
    places = {_slug(heading) for heading in re.findall(r"^#+ (.*)$", page, re.M)}
    assert "order-of-events" in places
    assert set(re.findall(r"\]\(#([^)]*)\)", page)) <= places
    cited = {
        place for path in TEXTS for place in re.findall(r"rules\.md#([a-z0-9-]+)", path.read_text("utf-8"))
    }
    assert "order-of-events" in cited
    assert cited <= places
    numbered = re.compile(r"rule book,?\s+(?:section|table|\d)|\btable 8\.\d", re.IGNORECASE)
    assert not [path for path in TEXTS if numbered.search(path.read_text("utf-8"))]


def test_recordings_that_are_named_are_there(root):
    """Those of the second collection only once its file is there."""
    files = sorted((root / "data" / "recordings" / "scenarios").glob("*.jsonl"))
    ids = [json.loads(line)["id"] for file in files for line in file.read_text("utf-8").splitlines()]
    named = [
        name
        for one in rule_book().values()
        for part in one.source.split("; ")
        for name in part.partition("recording: ")[2].split(", ")
        if name and (not name.startswith("m2") or any(known.startswith("m2-") for known in ids))
    ]
    assert len(named) > 50
    assert [name for name in named if not any(fnmatch(known, name) for known in ids)] == []


def _slug(heading: str) -> str:
    """Return a heading's anchor."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


# The tables, and what the code says


LARGEST = {"uint32": 2**32 - 1, "uint64": 2**64 - 1, "int64": 2**63 - 1}
KINDS = {
    "uint32": """qpid.max_count qpid.flow_stop_count qpid.flow_resume_count qpid.priorities x-qpid-priorities
        qpid.fairshare x-qpid-fairshare qpid.fairshare-1 x-qpid-fairshare-1 qpid.alert_count
        qpid.alert_count_up qpid.alert_count_down x-qpid-maximum-message-count qpid.max_pages_loaded
        qpid.page_factor""",
    "uint64": """qpid.max_size qpid.flow_stop_size qpid.flow_resume_size qpid.alert_size qpid.alert_size_up
        qpid.alert_size_down x-qpid-maximum-message-size qpid.auto_delete_timeout qpid.file_count
        qpid.file_size""",
    "int64": "qpid.alert_repeat_gap x-qpid-minimum-alert-repeat-gap",
    "bool": "qpid.shared_msg_group qpid.group_timestamp qpid.browse-only no-local qpid.paging",
    "string": "qpid.policy_type qpid.queue_msg_sequence",
    "text": """qpid.group_header_key qpid.last_value_queue_key qpid.filter qpid.trace.id qpid.trace.exclude
        qpid.lifetime-policy""",
    "any": "qpid.last_value_queue qpid.last_value_queue_no_browse",
}
"""The real broker's arguments by what their values are converted to."""


@pytest.mark.parametrize(("key", "kind"), [(key, kind) for kind in KINDS for key in KINDS[kind].split()])
def test_the_conversion_of_each_declare_argument(key, kind):
    """CF-01, CF-03: each argument is understood, and converted to its type."""
    largest = LARGEST.get(kind)
    value: object = largest or ("true" if kind == "bool" else "text")
    assert is_understood(key)
    assert QueueSettings.from_arguments({key: value}) != QueueSettings(arguments={key: value})
    for bad in ("x", largest + 1) if largest else {"bool": ("maybe",), "string": (5,)}.get(kind, ()):
        with pytest.raises(InvalidConversion):
            QueueSettings.from_arguments({key: bad})


def test_a_rule_names_each_declare_argument():
    """An argument that the engine understands, and no rule's sentence names, is not written down."""
    _, *rows = _declare_arguments()
    assert {key for keys in KINDS.values() for key in keys.split() if "fairshare-1" not in key} <= {
        key for key, _, _ in rows
    }
    assert [key for key, _, rules in rows if not rules] == []


def test_the_table_of_qpid_config_options():
    sent = {row[0].split()[0]: row[1] for row in rule_table("qpid-config-options")[1:]}
    durable = {row[0].split()[0] for row in rule_table("qpid-config-options")[1:] if "only with" in row[2]}
    others = {
        "--limit-policy",
        "--argument",
        "--alternate-exchange",
        "--durable",
        "--replicate",
        "--start-replica",
    }
    assert sent.keys() - {option.flag for option in OPTIONS} == others
    assert {option.flag: option.key for option in OPTIONS}.items() <= sent.items()
    assert durable == {option.flag for option in OPTIONS if option.needs_durable}


def test_the_table_of_broker_options():
    rows = rule_table("broker-options")[1:]
    modelled = {row[0]: row[2] for row in rows if "no effect" not in row[3]}
    assert modelled.keys() == set(MODELLED) - set(DIALS)
    assert {name for row in rows if row[0] not in modelled for name in row[0].split(", ")} <= NOT_MODELLED
    assert BrokerOptions.parse([f"--{name}={value}" for name, value in modelled.items()]) == BrokerOptions()


def test_the_table_of_error_codes():
    found = {(str(one.code), one.name) for one in SessionException.__subclasses__()}
    assert {
        (code, name) for code, name, ends in rule_table("error-codes")[1:] if ends == "the session"
    } == found
    assert rule_table("error-codes")[-1] == [
        str(FramingErrorException.code),
        "framing-error",
        "the connection",
    ]


# Looking a rule up


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


def test_the_list_is_printed_with_titles_tests_and_a_closing_count(capsys):
    lines = output_of(capsys, "rules").splitlines()
    at = lines.index("FC-14   ON when a message makes the level exceed a stop threshold")
    assert lines[at + 1].startswith("        test_")
    assert lines[-1] == f"{len(rule_book())} of {len(rule_book())} rules have a test or a reason why not"


def test_a_rule_is_printed_whole(capsys):
    first, second = output_of(capsys, "rules", "fc-14", "FC-02.4").split("\n\n")
    lines = first.splitlines()
    assert lines[0] == f"FC-14  {rule('FC-14').title}"
    assert " ".join(lines[1:-4]) == rule("FC-14").sentence
    assert lines[-4] == f"source: {rule('FC-14').source}"
    assert lines[-3].startswith("certainty: observed (seen on the real broker")
    assert "test_conformance::test_a_rule_that_a_recording_holds" in lines[-2]
    assert lines[-1].startswith("chapters: 01")
    assert second.startswith("FC-02  ")


def test_away_from_a_checkout_rules_are_printed_without_their_tests(monkeypatch, capsys):
    monkeypatch.setattr(rules, "checkout_root", lambda: None)
    assert "tests:" not in output_of(capsys, "rules", "FC-14")
    listed = output_of(capsys, "rules").splitlines()
    assert len(listed) == len(rules.rule_book())
    assert "FC-14   ON when a message makes the level exceed a stop threshold" in listed


@pytest.mark.parametrize(
    ("cited", "text"),
    [
        ("FC-99", "no rule 'FC-99'; allowed are FC-"),
        ("fc", "no rule 'fc'; allowed are FC-"),
        ("", "no rule ''; allowed are ids such as FC-14"),
        ("ring", "no rule 'ring'; allowed are ids such as FC-14"),
    ],
)
def test_an_id_that_is_no_rule_is_refused(cited, text):
    with pytest.raises(RefusalError, match=re.escape(text)):
        rule(cited)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "FC-99,full, or nearly so,It is.,qflow,inferred,",
            "line 2: rule, title, sentence, .* got 7 columns",
        ),
        ("FC-99", "line 2: rule, title, sentence, .* got 1 columns"),
        ("FC-14,a,b,qflow,inferred,\nFC-14,a,b,qflow,inferred,", "line 3: FC-14 is there already"),
        ("FC-99,a,,qflow,inferred,", "FC-99: a title and a sentence are needed"),
        ("FC-99,a,b,hearsay: x,inferred,", "FC-99: source 'hearsay: x'; allowed are recording, live broker"),
        ("FC-99,a,b,qflow,sure,", "FC-99: certainty 'sure'; allowed are observed, source read"),
    ],
)
def test_a_list_that_would_lose_something_is_refused(tmp_path, monkeypatch, line, text):
    (tmp_path / "rules.csv").write_text(f"rule,title,sentence,source,certainty,untested\n{line}\n")
    monkeypatch.setattr(rules, "kit_path", lambda name: tmp_path)
    with pytest.raises(RefusalError, match=text):
        rule_book()
