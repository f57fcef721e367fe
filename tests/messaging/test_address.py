"""Address strings: grammar, options, and the words of their refusals (CF-14; the cases of ``address.py``)."""

import pytest
from messaging_support import Bench

from qflow.messaging import InvalidOption, MalformedAddress
from qflow.messaging.address import WSPACE, LexError, ParseError, _lex, find_error, parse


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ("foo-bar", "ID"),
        ("foo-3", "ID"),
        ("foo - bar", "ID SYM ID"),
        ("foo - 3", "ID SYM NUMBER"),
        ("-foo", "SYM ID"),
        ("foo-", "ID SYM"),
        ("-3", "NUMBER"),
        ("id1", "ID"),
        ("id 1", "ID NUMBER"),
        ("a\\/b", "ID ESC ID"),
        ("{[:,;/]}", "LBRACE LBRACK COLON COMMA SEMI SLASH RBRACK RBRACE"),
    ],
)
def test_words_are_split_at_dashes_in_front(text: str, types: str) -> None:
    """CF-14: dashes belong to names if something follows, to numbers in front."""
    assert " ".join(token.type for token in _lex(text) if token.type != WSPACE) == f"{types} EOF"


@pytest.mark.parametrize(
    ("text", "name", "subject", "options"),
    [
        ("foo", "foo", None, None),
        ("foo/bar.#", "foo", "bar.#", None),
        ("foo/", "foo", None, None),
        ("foo/a/b", "foo", "a/b", None),
        ("foo.bar/baz.qux:moo:arf; {key: value}", "foo.bar", "baz.qux:moo:arf", {"key": "value"}),
        ("name/subject; {key: value,}", "name", "subject", {"key": "value"}),
        ("foo.bar/'baz.qux;moo:arf'; {key: value}", "foo.bar", "baz.qux;moo:arf", {"key": "value"}),
        ("'a/b;c'; {}", "a/b;c", None, {}),
        ("foo.bar/baz.qux.{moo,arf}; {key: value}", "foo.bar", "baz.qux.{moo,arf}", {"key": "value"}),
        ("foo.bar/baz.qux.{moo,arf; {key: value}", "foo.bar", "baz.qux.{moo,arf", {"key": "value"}),
        ("foo.bar\\/baz.qux.{moo,arf; {key: value}", "foo.bar/baz.qux.{moo,arf", None, {"key": "value"}),
        ("foo.bar\\xFFbaz; {key: value}", "foo.bar\xffbaz", None, {"key": "value"}),
        ("foo.bar\\uFFFFbaz; {key: value}", "foo.bar\uffffbaz", None, {"key": "value"}),
        ("my\n queue ; { }", "myqueue", None, {}),
    ],
)
def test_a_valid_address_is_read(text: str, name: str, subject: str | None, options: object) -> None:
    assert parse(text) == (name, subject, options)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("{ key: [] }", {"key": []}),
        ("{ key: ['one'] }", {"key": ["one"]}),
        ("{ key: [1, [2, 3], 4,] }", {"key": [1, [2, 3], 4]}),
        ("{ 'key': value }", {"key": "value"}),
        ("{ 1: value }", {1: "value"}),
        ('{ "foo.bar": value }', {"foo.bar": "value"}),
        ("{t1: True, t2: true, f1: False, f2: false}", {"t1": True, "t2": True, "f1": False, "f2": False}),
        ("{i: 12, j: -3, k: +7, x: 3.14, y: .5}", {"i": 12, "j": -3, "k": 7, "x": 3.14, "y": 0.5}),
        ("{e: '', n: None}", {"e": "", "n": None}),
        ("{a: {b: {}}}", {"a": {"b": {}}}),
        (
            "{node: {x-declare: {arguments: {'q.k': 'G'}}}}",
            {"node": {"x-declare": {"arguments": {"q.k": "G"}}}},
        ),
    ],
)
def test_options_of_an_address_are_parsed(text: str, options: object) -> None:
    assert parse(f"name/subject; {text}") == ("name", "subject", options)


VALUE = "(NUMBER, STRING, ID, LBRACE, LBRACK)"
PAIR = "(NUMBER, STRING, ID, LBRACE, LBRACK, RBRACE)"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("; {key: value}", "unexpected token SEMI(;) line:1,0"),
        ("", "unexpected token EOF line:1,0"),
        ("/asdf; {key: value}", "unexpected token SLASH(/) line:1,0"),
        ("name/subject; {", f"expecting {PAIR}, got EOF line:1,15"),
        ("name/subject; { 3", "expecting COLON, got EOF line:1,17"),
        ("name/subject; { key:", f"expecting {VALUE}, got EOF line:1,20"),
        ("name/subject; { key: value", "expecting (COMMA, RBRACE), got EOF line:1,26"),
        ("name/subject; { key: value asdf", "expecting (COMMA, RBRACE), got ID(asdf) line:1,27"),
        ("name/subject; { key: value,", f"expecting {PAIR}, got EOF line:1,27"),
        ("name/subject; { key: value } asdf", "expecting EOF, got ID(asdf) line:1,29"),
        ("n; { key: [ }", f"expecting {VALUE}, got RBRACE(}}) line:1,12"),
        ("n; { key: [ 1 }", "expecting (COMMA, RBRACK), got RBRACE(}) line:1,14"),
        ("n; { key: [ 1 2 }", "expecting (COMMA, RBRACK), got NUMBER(2) line:1,14"),
        ("n; {qpid.max_count: 10}", "expecting COLON, got SYM(.) line:1,8"),
        ("n; {\n  key value}", "expecting COLON, got ID(value) line:2,6"),
        ("n; {[1]: 2}", "expecting (NUMBER, STRING, ID), got LBRACK([) line:1,4"),
        ("n; {k: '\\x1'}", "unexpected token STRING('\\x1') line:1,7"),
    ],
)
def test_an_unparsable_address_names_the_place(text: str, error: str) -> None:
    """CF-14: what is expected, what is there, and where: line, column and the line itself."""
    with pytest.raises(ParseError) as raised:
        parse(text)
    assert str(raised.value) == ":".join([error, text.rpartition("\n")[2]])


@pytest.mark.parametrize("text", ["\0x0\0x1", "name; {key: ?}", "ümlaut", "'never closed"])
def test_unknown_characters_are_named(text: str) -> None:
    with pytest.raises(LexError, match="unrecognized characters line:1,"):
        parse(text)


@pytest.mark.parametrize("text", [None, "", "name/subject; {bad options", "\0x0\0x1\0x2\0x3"])
def test_a_malformed_address_is_refused_and_the_session_lives_on(bench: Bench, text: str | None) -> None:
    """CF-14: a sender and a receiver refuse it; the session lives on."""
    for make in (bench.session.sender, bench.session.receiver):
        with pytest.raises(MalformedAddress):
            make(text)
    bench.sender("q; {create: always}").send("still here")


ALLOWED = "('always', 'sender', 'receiver', 'never')"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("{create: asdf}", f"create: asdf not in {ALLOWED}"),
        ("{delete: 1, assert: maybe}", f"delete: 1 not in {ALLOWED}, assert: maybe not in {ALLOWED}"),
        ("{node: asdf}", "node: asdf is not a map"),
        ("{node: {this-property-does-not-exist: 3}}", "node: this-property-does-not-exist: illegal key"),
        ("{node: {durable: []}}", "node: durable: [] is not a bool"),
        ("{node: {type: stack}}", "node: type: stack not in ('queue', 'topic')"),
        ("{node: {x-declare: 5}}", "node: x-declare: 5 is not a map"),
        ("{node: {x-bindings: {}}}", "node: x-bindings: {} is not a list"),
        ("{node: {x-bindings: [{exchange: 5}]}}", "node: x-bindings: exchange: 5 is not a str"),
        ("{link: {name: 5}}", "link: name: 5 is not a str"),
        (
            "{link: {reliability: high}}",
            "link: reliability: high not in ('unreliable', 'at-most-once', 'at-least-once', 'exactly-once')",
        ),
        ("{x: 1}", "x: illegal key"),
        ("{create: None, node: None}", None),
        (
            '{link: {selector: "a = 1"}}',
            "link: selector: illegal key"
            " (qpid-cpp has it; here: x-subscribe: {arguments: {x-apache-selector: ...}})",
        ),
        (
            "{link: {timeout: 5}}",
            "link: timeout: illegal key"
            " (qpid-cpp has it; here: x-declare: {arguments: {'qpid.auto_delete_timeout': ...}})",
        ),
        ("{link: {x-subscribe: {exclusive: True}}}", None),
    ],
)
def test_options_are_checked_before_the_broker_is_asked(
    bench: Bench, options: str, error: str | None
) -> None:
    """CF-14: every option and value is checked before the broker is asked."""
    address = f"q; {options}"
    assert find_error(parse(address).options or {}, "sender") == error
    if error is None:
        return
    for make in (bench.session.sender, bench.session.receiver):
        with pytest.raises(InvalidOption) as raised:
            make(address)
        assert str(raised.value) == f"error in options: {error}"


def test_mode_is_for_receivers(bench: Bench) -> None:
    """CF-14."""
    with pytest.raises(InvalidOption, match="mode: illegal key"):
        bench.sender("q; {mode: browse}")
    with pytest.raises(InvalidOption, match=r"not in \('browse', 'consume'\)"):
        bench.receiver('name; {mode: "this-is-a-bad-receiver-mode"}')
