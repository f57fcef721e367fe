"""Bad input through addresses: the exception people catch, its code, the broker's words (CF-05).

One of each kind; the tables of what is refused: tests/broker/test_settings.py and test_exchanges.py.
"""

import pytest
from messaging_support import Bench, address

from qflow.messaging import MessagingError, NotFound, ReceiverError, ServerError, SessionError


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ({"qpid.max_count": "abc"}, 542, "invalid conversion: "),
        ({"qpid.max_count": 100, "qpid.flow_stop_count": 5}, 542,
         'invalid-argument: Queue "q": qpid.flow_resume_count=70 must be less'),
        ({"qpid.paging": True}, 540, "not-implemented: qpid.paging"),
    ],
)  # fmt: skip
def test_refused_declare(arguments: dict[str, object], code: int, text: str) -> None:
    """CF-05: nothing is created, the session is gone, the connection is not; a second try fares the same."""
    bench = Bench()
    for make in (bench.new_session().sender, bench.new_session().receiver):
        with pytest.raises(SessionError) as raised:
            make(address("q", arguments))
        assert type(raised.value) is SessionError
        assert raised.value.code == code
        assert str(raised.value).startswith(text), str(raised.value)
        assert not bench.exists("queue", "q")
    bench.sender(address("q")).send("fine")


@pytest.mark.parametrize(
    ("source", "kind", "code", "text"),
    [
        ("amq.x; {create: always, node: {type: topic}}", SessionError, 530, "not-allowed: Exchange names"),
        ("q; {node: {x-bindings: [{exchange: 'amq.match', key: z}]}}", ServerError, 541,
         "internal-error: Invalid"),
        ("mine; {mode: consume}", ReceiverError, 405,
         "resource-locked: Cannot subscribe to exclusive queue mine"),
        ("gone; {create: always, node: {x-declare: {passive: True}}}", NotFound, 404,
         "not-found: Queue not found"),
    ],
)  # fmt: skip
def test_refused_otherwise(source: str, kind: type[MessagingError], code: int, text: str) -> None:
    """CN-02, CF-04: what an address asks for beside a queue's arguments."""
    bench = Bench()
    bench.sender("q; {create: always}")
    bench.sender("mine; {create: always, node: {x-declare: {exclusive: True}}}")
    with pytest.raises(kind) as raised:
        bench.new_session().receiver(source)
    assert type(raised.value) is kind
    assert raised.value.code == code
    assert str(raised.value).startswith(text), str(raised.value)


@pytest.mark.parametrize("address", [5, b"q", ["q"], -1])
@pytest.mark.parametrize("is_open", [True, False])
def test_an_address_that_is_no_text_is_refused_at_once(address, is_open):
    """CF-14: on a connection that is closed, too, not only when it opens again."""
    bench = Bench()
    if not is_open:
        bench.connection.detach()
    for attach in (bench.session.sender, bench.session.receiver):
        with pytest.raises(TypeError, match="an address is a string"):
            attach(address)
    bench.connection.attach()
    assert not bench.session.senders and not bench.session.receivers
