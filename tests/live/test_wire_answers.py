"""What the server answers on the wire, beside the real broker: attaches, transactions, filters."""

import re

import pytest
from recordings import RECORDINGS

pytest.importorskip("proton")

from proton import Described, Endpoint, Link, Message, Terminus, Transport, char, symbol, ulong
from scenario10 import Client, Player, json_of, reason

from qflow.live import serve

RECORDED = (RECORDINGS / "amqp10" / "frames-of-the-broker.txt").read_text("utf-8")
ANSWERS = {
    case.partition("\n")[0]: [line.strip() for line in case.splitlines()[1:]]
    for case in RECORDED.split("## ")[1:]
}
SELECTOR = Described(symbol("apache.org:selector-filter:string"), "a=1")


def change(link, case):
    """Make a link's attach what the case's name says."""
    if case in ("settled", "unsettled"):
        link.snd_settle_mode = Link.SND_SETTLED if case == "settled" else Link.SND_UNSETTLED
    elif case == "second":
        link.rcv_settle_mode = Link.RCV_SECOND
    elif case == "dynamic":
        link.source.dynamic = True
    elif case == "durable":
        link.source.durability, link.source.expiry_policy = Terminus.DELIVERIES, Terminus.EXPIRE_NEVER
    elif case == "maxsize":
        link.max_message_size = 1000
    elif case == "capqueue":
        link.target.capabilities.put_object(symbol("queue"))
    elif case == "linkprops":
        link.properties = {symbol("a"): 1}
    elif case == "desired":
        link.desired_capabilities = [symbol("DELAYED_DELIVERY")]
    elif case == "copy":
        link.source.distribution_mode = Terminus.DIST_MODE_COPY
    elif case == "filter":
        unknown = Described(symbol("foo:bar"), "z")
        link.source.filter.put_object({symbol("x"): SELECTOR, symbol("unknown"): unknown})


def alike(frame):
    """Return a frame without what differs from one run, machine, product or Proton to the next."""
    frame = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]+", "<uuid>", frame)
    # A newer Proton announces its own number of links.
    frame = re.sub(r", handle-max=0x[0-9a-f]+", "", frame)
    frame = re.sub(r"0x[0-9a-f]{6,}", "<ptr>", frame)
    return re.sub(r':(product|version|platform|host)="[^"]*"', r':\1="…"', frame)


@pytest.fixture(scope="module")
def served():
    with serve("q1") as broker:
        yield broker
        assert not broker.server.failures


@pytest.fixture
def player(served):
    return Player(served)


def test_there_are_recorded_frames():
    assert len(ANSWERS) == 21


@pytest.mark.parametrize("name", ANSWERS)
def test_an_attach_is_answered_as_the_real_broker_does(name, player):
    """LNK-08, LNK-14, LNK-16, LNK-17, LNK-18, LNK-27."""
    role, case = name.split()
    client = Client(player, "w", sasl=False)
    frames = []
    client.transport.trace(Transport.TRACE_FRM)
    client.transport.tracer = lambda transport, text: frames.append(text)
    link = getattr(client.session, role)(case)
    there, back = (link.target, link.source) if role == "sender" else (link.source, link.target)
    nodes = {"missing": "nosuch", "exchange": "amq.topic", "durable": "amq.topic"}
    there.address = None if case in ("null", "dynamic") else nodes.get(case, "q1")
    back.address = "me"
    change(link, case)
    link.open()
    assert player.pump(lambda: link.state & (Endpoint.REMOTE_ACTIVE | Endpoint.REMOTE_CLOSED))
    # What is answered to the attach comes before the answer to a second session.
    second = client.connection.session()
    second.open()
    assert player.pump(lambda: second.state & Endpoint.REMOTE_ACTIVE)
    came = [text.partition("<- ")[2] for text in frames if "<- " in text]
    began = [place for place, frame in enumerate(came) if frame.startswith("@begin")][1]
    assert [alike(frame) for frame in came[:began]] == [alike(frame) for frame in ANSWERS[name]]


# Transactions

# An amqp-value of a described list: what a coordinator is sent.
VALUE = b"\0\x53\x77\0"
DESCRIPTORS = {"small": b"\x53%c", "large": b"\x80\0\0\0\0\0\0\0%c"}
NO_FIELDS = {"list0": b"\x45", "list8": b"\xc0\x01\x00", "list32": b"\xd0\0\0\0\x04\0\0\0\0"}
NULL_FIELD = {"a null": b"\xc0\x02\x01\x40"}


def identified(identity, failed):
    fields = b"\xa0%c%b%c" % (len(identity), identity, 0x41 if failed else 0x42)
    return b"\xc0%c\x02%b" % (len(fields) + 1, fields)


@pytest.mark.parametrize("size", DESCRIPTORS)
@pytest.mark.parametrize("fields", {**NO_FIELDS, **NULL_FIELD}.items(), ids=lambda item: item[0])
def test_a_transaction_may_be_described_by_numbers(size, fields, served, player):
    """LNK-21: JMS and .NET send 0x31 and 0x32, with or without the field that has only one value."""
    client = Client(player, "numbers")
    player.by_name, player.home = {"c": client}, {"s": client}
    depth = served.broker.queue("q1").message_depth
    names = []
    for failed in (False, True):
        client.transaction = player.control(client, VALUE + DESCRIPTORS[size] % 0x31 + fields[1])
        names.append(client.transaction)
        if not failed:
            player.do_sender("c", "s", "q1")
            assert player.pump(lambda: client.links["s"].credit)
        player.do_send("s", 1, tx="c")
        discharge = DESCRIPTORS[size] % 0x32 + identified(names[-1], failed)
        assert player.control(client, VALUE + discharge) == b""
    player.settle_down([client])
    assert client.seen["(tx)"] == ["declared", "accepted"] * 2
    assert served.broker.queue("q1").message_depth == depth + 1
    # The address of something, which is the session's.
    assert names[0] == names[1] and re.fullmatch(rb"0x[0-9a-f]{6,}", names[0])


@pytest.mark.parametrize("fields", NO_FIELDS)
def test_a_discharge_of_no_transaction_is_passed_over(fields, player):
    """LNK-21: it has no answer, and the link lives."""
    client = Client(player, "nothing")
    assert player.control(client, VALUE + b"\x53\x31\x45")
    link = client.links["(tx)"]
    link.delivery("none")
    link.send(VALUE + b"\x53\x32" + NO_FIELDS[fields])
    link.advance()
    player.settle_down([client])
    assert "none" not in client.replies and link.state & Endpoint.REMOTE_ACTIVE


# What is in a message


@pytest.mark.parametrize(("body", "found"), [("A", 0), ("é", 0), ("\U0001f600", 1)])
@pytest.mark.parametrize("properties", [None, {"n": 1}])
@pytest.mark.parametrize("descriptor", [None, 5])
def test_a_char_as_a_body_closes_the_connection(body, found, properties, descriptor, player):
    """LNK-28: the broker's decoder passes over no byte of it, and takes the first for a descriptor."""
    client = Client(player, "char")
    link = client.session.sender("s")
    link.target.address = "q1"
    link.open()
    player.pump(lambda: link.credit)
    value = char(body) if descriptor is None else Described(ulong(descriptor), char(body))
    link.delivery("1")
    link.send(Message(body=value, properties=properties).encode())
    link.advance()
    assert player.pump(lambda: client.connection.state & Endpoint.REMOTE_CLOSED)
    text = f"Expected descriptor of type ulong or symbol; found {found}"
    assert reason(client.connection.remote_condition) == ["amqp:internal-error", text]


# Filters and properties of an answer

TOPIC, DIRECT = 0x468C00000001, 0x468C00000000
SUBJECTS = "apache.org:legacy-amqp-topic-binding:string", "apache.org:legacy-amqp-direct-binding:string"
FILTERS = [
    ("amq.topic", None, {"default-subject-filter": {f"@ulong({TOPIC})": "#"}}),
    ("amq.direct", None, {"default-subject-filter": {f"@ulong({DIRECT})": ""}}),
    ("amq.match", None, {"default-headers-filter": {"@ulong(77567109365762)": {"x-match": "all"}}}),
    ("amq.fanout", None, None),
    ("amq.fanout", Described(symbol(SUBJECTS[0]), "a"), None),
    ("amq.topic", "a.#", {"x": "a.#"}),
    ("q1", "a.#", {"x": "a.#"}),
    ("q1", Described(symbol(SUBJECTS[0]), ""), None),
    ("amq.direct", Described(symbol(SUBJECTS[0]), "a"), {"x": {f"@{SUBJECTS[1]}": "a"}}),
    ("amq.direct", Described(ulong(TOPIC), "a"), {"x": {f"@ulong({DIRECT})": "a"}}),
    ("amq.topic", Described(ulong(DIRECT), "a"), {"x": {f"@ulong({DIRECT})": "a"}}),
    ("q1", Described(ulong(0x468C00000099), "a"), None),
]


@pytest.mark.parametrize(("address", "asked", "taken"), FILTERS)
def test_the_answer_has_the_filters_in_force(address, asked, taken, player):
    """LNK-14: those that were asked for, and the binding's own."""
    client = Client(player, "filters")
    link = client.session.receiver("r")
    link.source.address = address
    if asked is not None:
        link.source.filter.put_object({symbol("x"): asked})
    link.open()
    assert player.pump(lambda: link.state & Endpoint.REMOTE_ACTIVE)
    assert json_of(link.remote_source.filter) == taken
    client.connection.close()
    player.settle_down([client])


def test_a_link_to_nothing_at_all_is_refused(player):
    """LNK-08."""
    client = Client(player, "nowhere")
    link = client.session.sender("s")
    link.target.type = Terminus.UNSPECIFIED
    link.open()
    assert player.pump(lambda: link.state & Endpoint.REMOTE_CLOSED)
    assert reason(link.remote_condition) == ["amqp:precondition-failed", "No target specified!"]
