"""Declare arguments: what they come to, and which are refused (FC-01 … FC-12, CF).

Beside the recordings ``fc-bad-``, ``fc-ratio-``, ``fc-round-`` and ``gr-restrictions``, which
tests/conformance plays step by step.
"""

import pytest
from support import Bench, bench_with, queue_of, refused, rows_of

DEFAULT_LIMIT = 104_857_600


def thresholds(bench: Bench, queue: str = "q") -> tuple[int, int, int, int] | None:
    """Return stop and resume, count then size, in force; None without flow control."""
    limit = bench.broker.queue(queue).flow_limit
    if limit is None:
        return None
    in_force = limit.thresholds
    return in_force.stop_count, in_force.resume_count, in_force.stop_size, in_force.resume_size


def assert_refused(text: str, others: dict[str, object] | None = None, **short: object) -> None:
    """Declare a queue with arguments that are refused with 542; there is none afterwards."""
    bench = Bench()
    with refused(542, text):
        bench.declare("q", others, **short)
    assert not bench.exists("q")


# Flow thresholds


GOLDEN = [
    (1, 1, 1),
    (90, 72, 62),
    (10_000, 8_000, 7_000),
    (104_857_600, 83_886_080, 73_400_320),
    (2_950_001, 2_360_001, 2_065_000),
]


@pytest.mark.parametrize("unit", ["count", "size"])
@pytest.mark.parametrize(("maximum", "stop", "resume"), GOLDEN, ids=[f"FC-04 {row[0]}" for row in GOLDEN])
def test_default_thresholds_round_as_the_real_broker_does(unit, maximum, stop, resume):
    """FC-02.4, FC-02.5, FC-04: stop rounds half up, resume truncates, in doubles; resume 0 becomes stop."""
    bench = Bench(default_queue_limit=0)
    bench.declare("q", {f"qpid.max_{unit}": maximum})
    assert thresholds(bench) == ((stop, resume, 0, 0) if unit == "count" else (0, 0, stop, resume))


ONE_BELOW_EXACT = [
    90, 170, 180, *range(330, 361, 10), *range(650, 731, 10), *range(1290, 1461, 10),
]  # fmt: skip


def test_where_doubles_differ_from_exact_arithmetic():
    """FC-04: below 2000 the default resume is one lower than exact at these maxima, and nowhere else."""
    bench = Bench(default_queue_limit=0)
    different = []
    for maximum in range(2, 2000):
        bench.declare(f"q{maximum}", max_count=maximum)
        stop, resume, _, _ = thresholds(bench, f"q{maximum}")
        assert stop == (maximum * 80 + 50) // 100, maximum
        if resume != maximum * 70 // 100:
            assert resume == maximum * 70 // 100 - 1, maximum
            different.append(maximum)
    assert different == ONE_BELOW_EXACT


S, R = 83_886_080, 73_400_320
IN_FORCE = [
    pytest.param({}, (0, 0, S, R), id="FC-02 FC-04 no argument: the default limit's"),
    pytest.param({"max_count": 10}, (8, 7, S, R), id="FC-02 both units at once"),
    pytest.param({"max_size": 0}, None, id="FC-02.3 an explicit max_size 0 leaves nothing to compute from"),
    pytest.param({"max_size": 10_000}, (0, 0, 8_000, 7_000), id="X-23 8000 and 7000 of a declared 10000"),
    pytest.param({"max_size": 0, "flow_stop_count": 10}, (10, 10, 0, 0), id="FC-05.2 resume 0 becomes stop"),
    pytest.param({"flow_stop_count": 10}, (10, 10, S, R), id="FC-07 stop_count without max_count"),
    pytest.param(
        {"flow_stop_count": 30, "flow_resume_count": 21, "flow_stop_size": 0x2FFFFFFFF,
         "flow_resume_size": 0x1FFFFFFFF, "max_size": 0},
        (30, 21, 0x2FFFFFFFF, 0x1FFFFFFFF), id="FC-01 sizes are 64 bits wide (testFlowArgs)",
    ),
    pytest.param(
        {"flow_stop_count": 35_000, "flow_resume_count": 30_000, "max_size": 0},
        (35_000, 30_000, 0, 0), id="FC-02.6 count overrides (testFlowOverrideArgs a)",
    ),
    pytest.param(
        {"flow_stop_size": 350_000, "flow_resume_size": 300_000, "max_size": 0},
        (0, 0, 350_000, 300_000), id="FC-02.6 size overrides (testFlowOverrideArgs b)",
    ),
    pytest.param({"flow_resume_count": 10}, (0, 10, S, R), id="FC-02.2 FC-07 a resume alone is kept"),
    pytest.param(
        {"flow_resume_count": 5, "max_count": 10}, (8, 5, S, R), id="FC-02.2 a resume with the default stop"
    ),
    pytest.param({"flow_stop_count": 0, "flow_stop_size": 0}, None, id="FC-08 both stops 0"),
    pytest.param(
        {"flow_stop_count": 0, "max_count": 100}, (0, 70, S, R), id="FC-08 FC-09 the resume of 70 remains"
    ),
    pytest.param(
        {"flow_stop_size": 0, "max_count": 100}, (80, 70, 0, R), id="FC-08 stop_size 0 leaves the count"
    ),
    pytest.param(
        {"flow_stop_count": 0, "flow_resume_count": 500, "max_count": 10},
        (0, 500, S, R), id="FC-05 FC-07 a unit without stop is not validated",
    ),
    pytest.param({"flow_stop_count": 70, "max_count": 100}, (70, 70, S, R), id="FC-07 70 of 100"),
    pytest.param({"flow_stop_count": 80, "max_count": 100}, (80, 70, S, R), id="FC-07 80 of 100"),
    pytest.param({"flow_stop_count": 100, "max_count": 100}, (100, 70, S, R), id="FC-05.3 X-08 stop == max"),
    pytest.param(
        {"flow_stop_size": 1000, "flow_resume_size": 0}, (0, 0, 1000, 1000), id="FC-07 resume_size 0"
    ),
    pytest.param(
        {"flow_stop_size": 1000, "flow_resume_size": 500}, (0, 0, 1000, 500), id="FC-07 resume_size 500"
    ),
    pytest.param(
        {"flow_stop_count": 10, "flow_resume_count": 10}, (10, 10, S, R), id="FC-05.1 resume == stop"
    ),
    pytest.param(
        {"max_size": 0, "flow_stop_size": 209_715_200}, (0, 0, 209_715_200, 209_715_200),
        id="FC-06 200 MiB with max_size 0",
    ),
    pytest.param({"policy_type": "ring", "max_count": 10}, None, id="FC-03 ring"),
    pytest.param(
        {"policy_type": "ring", "flow_stop_count": 10, "flow_resume_count": 11}, None,
        id="FC-03 ring: thresholds are not even looked at",
    ),
    pytest.param({"policy_type": "ring_strict", "max_count": 10}, (8, 7, S, R), id="FC-03 X-11 ring_strict"),
    pytest.param({"policy_type": "self-destruct", "max_count": 10}, (8, 7, S, R), id="LP-16 self-destruct"),
    pytest.param({"flow_stop_count": "3"}, (3, 3, S, R), id="FC-11 a string which holds an integer"),
    pytest.param(
        {"flow_stop_count": "-0", "flow_stop_size": 0}, None, id="FC-11 the string -0 is 0"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("short", "expected"), IN_FORCE)
def test_thresholds_in_force(short, expected):
    """FC-01, FC-02, FC-05, FC-07, FC-08, FC-09: what a declare comes to."""
    bench = bench_with("q", **short)
    assert thresholds(bench) == expected


RESUME_COUNT = 'Queue "q": qpid.flow_resume_count={} must be less or equal to qpid.flow_stop_count={}'
RESUME_SIZE = 'Queue "q": qpid.flow_resume_size={} must be less or equal to qpid.flow_stop_size={}'
MAX_COUNT = 'Queue "q": qpid.flow_stop_count={} must be less than qpid.max_count={}'
MAX_SIZE = 'Queue "q": qpid.flow_stop_size={} must be less than qpid.max_size={}'
REFUSED = [
    pytest.param({"flow_stop_count": 69, "max_count": 100}, RESUME_COUNT.format(70, 69), id="FC-07 69"),
    pytest.param({"flow_stop_count": 101, "max_count": 100}, MAX_COUNT.format(101, 100), id="FC-07 101"),
    pytest.param(
        {"flow_stop_count": 101, "flow_resume_count": 102, "max_count": 100}, RESUME_COUNT.format(102, 101),
        id="FC-05 resume is checked before max",
    ),
    pytest.param(
        {"flow_stop_size": 5, "flow_resume_size": 6, "flow_stop_count": 5, "flow_resume_count": 6},
        RESUME_COUNT.format(6, 5), id="FC-02.7 count before size",
    ),
    pytest.param(
        {"flow_stop_count": 0, "flow_stop_size": 10, "flow_resume_size": 11}, RESUME_SIZE.format(11, 10),
        id="FC-05 the other unit is validated all the same",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("short", "text"), REFUSED)
def test_impossible_thresholds_are_refused_and_nothing_is_created(short, text):
    """FC-05, FC-06, FC-07: the broker's own words, and nothing is created."""
    assert_refused(text, **short)


# Declare arguments in general


BAD = {
    # Words, fractions, nothing and truth values are no numbers; nor is one below 0, or one of too many bits.
    "qpid.max_count": ("foo", -1, "2222222.22222", None, True, 2**32),
    "qpid.max_size": ("foo", -1, 3.14159, 2**64),
    "qpid.flow_stop_count": (2**32,),
    "qpid.priorities": ("many",),
    "x-qpid-priorities": ("many",),
    "qpid.alert_count": (-1,),
    "qpid.auto_delete_timeout": (-1,),
    "qpid.fairshare-x": (1,),
    "qpid.file_count": ("many",),
    # What is neither true nor false.
    "qpid.shared_msg_group": ("yes",),
    "qpid.browse-only": ("maybe", 1.0, "1.0"),
    # What is no string.
    "qpid.policy_type": (1,),
    "qpid.queue_msg_sequence": (1,),
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in BAD.items() for value in values])
def test_an_invalid_argument_value_is_refused(key, value):
    """CF-01, CF-03, CF-05, FC-11, LP-04, MG-01, QT-06, QT-15: 542, twice the same; nothing is left behind."""
    bench = Bench()
    for _ in range(2):
        with refused(542, "invalid conversion: "):
            bench.declare("q", {key: value})
        assert not bench.exists("q")


FINE = {
    "qpid.max_count": ("3", 2**32 - 1),
    "qpid.max_size": (str(2**40),),
    "qpid.alert_repeat_gap": (-5,),
    # Integers are truth values, in a string as well, and words whatever their case; null is false.
    "qpid.browse-only": (2, "True", "false", "FALSE", "2", str(-(2**31)), None),
    "qpid.group_header_key": (None,),
    "qpid.max_pages_loaded": (0,),
    "qpid.page_factor": ("0",),
    "qpid.priorities": (0,),
    # Keys that are not known, and values that mean nothing.
    "qpid.max-count": ("anything",),
    "qpid.flow_stop_cuont": (-7,),
    "anything": (None,),
    "qpid.policy_type": ("RING",),
    "qpid.lifetime-policy": ("for-ever",),
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in FINE.items() for value in values])
def test_an_accepted_argument_is_kept_as_given(key, value):
    """CF-02, CF-03, IN-01, LP-04, MG-01, QT-04, QT-08, QT-19: accepted, and kept as they were given."""
    bench = bench_with("q", {key: value})
    assert bench.broker.queue("q").settings.arguments == {key: value}


@pytest.mark.parametrize(
    ("alias", "value", "name", "expected"),
    [
        pytest.param("x-qpid-priorities", 5, "priorities", 5, id="CF-01 priorities"),
        pytest.param("x-qpid-maximum-message-count", 7, "alert_count_up", 7, id="CF-01 an alert, no limit"),
        pytest.param("x-qpid-maximum-message-size", 7, "alert_size_up", 7, id="CF-01 an alert in bytes"),
        pytest.param("x-qpid-minimum-alert-repeat-gap", 7, "alert_repeat_gap", 7, id="CF-01 repeat gap"),
    ],
)
def test_older_names_of_arguments_are_read(alias, value, name, expected):
    """CF-01: older names of some keys."""
    bench = bench_with("q", {alias: value})
    assert getattr(bench.broker.queue("q").settings, name) == expected
    bench.send("q", 8)
    assert bench.stat("q").msgDepth == 8


GROUPS = {"qpid.group_header_key": "g", "qpid.shared_msg_group": 1}
COMBINATIONS = {
    "Cannot specify qpid.last_value_queue_key and qpid.priorities for the same queue": {
        "MG-01 CF-05 LVQ and priorities come first": {
            "qpid.last_value_queue_key": "k",
            "qpid.priorities": 5,
            "qpid.fairshare": 1,
            **GROUPS,
        },
    },
    "Cannot specify fairshare settings when queue is not enabled for priorities": {
        "QT-06 MG-01 then fairshare": {"qpid.fairshare": 3, "qpid.last_value_queue_key": "k", **GROUPS},
        "QT-06 one level's fairshare": {"qpid.fairshare-0": 3},
    },
    "Cannot specify qpid.last_value_queue_key and qpid.paging for the same queue": {
        "QT-19 LVQ and paging": {"qpid.paging": 1, "qpid.last_value_queue_key": "k"},
    },
    "Cannot specify qpid.priorities and qpid.paging for the same queue": {
        "QT-19 priorities and paging": {"qpid.paging": 1, "qpid.priorities": 2},
    },
}
"""Beside those of the recording ``gr-restrictions``."""


@pytest.mark.parametrize(("text", "declared"), rows_of(COMBINATIONS))
def test_contradicting_arguments_are_refused(text, declared):
    """MG-01, QT-06, QT-19: what does not go together, in the order in which the broker asks."""
    assert_refused(text, declared)


@pytest.mark.parametrize(
    "declared",
    [
        pytest.param({**GROUPS, "qpid.policy_type": "self-destruct"}, id="MG-02 self-destruct"),
        pytest.param({**GROUPS, "qpid.flow_stop_count": 5}, id="MG-02 flow control"),
        pytest.param({**GROUPS, "qpid.alert_count": 5}, id="MG-02 alerts"),
        pytest.param({**GROUPS, "qpid.browse-only": 1}, id="MG-02 browse-only"),
        pytest.param({"qpid.priorities": 2, "qpid.fairshare-5": 1}, id="QT-06 the index is not checked"),
    ],
)
def test_combinations_that_go(declared):
    """MG-01, MG-02, QT-06: what does."""
    bench = bench_with("q", declared)
    assert bench.exists("q")


def test_paging_is_left_out():
    """QT-19: refused as not implemented, rather than ignored."""
    bench = Bench()
    with refused(540):
        bench.declare("q", paging=True)
    bench.declare("q", paging=False)
    assert bench.exists("q")


def test_an_integer_header_key_is_its_text():
    """MG-01: 5 becomes "5"."""
    bench = bench_with("q", group_header_key=5, shared_msg_group=1)
    bench.send("q", headers={"5": "A"})
    assert bench.owners("q") == {"A": (1, "")}


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        pytest.param(
            {"qpid.shared_msg_group": 1, "qpid.flow_stop_count": 5, "qpid.flow_resume_count": 6,
             "qpid.max_count": "x"},
            "invalid conversion: Cannot convert x", id="CF-05 every conversion comes first",
        ),
        pytest.param(
            {"qpid.priorities": "y", "qpid.max_size": "x"},
            "invalid conversion: Cannot convert x", id="CF-05 of two bad values the alphabet's first",
        ),
        pytest.param(
            {"qpid.flow_stop_count": 5, "qpid.flow_resume_count": 6, "qpid.shared_msg_group": 1},
            "Can only specify qpid.shared_msg_group", id="CF-05 then combinations",
        ),
        pytest.param(
            {"qpid.max_size": "b", "qpid.max_count": "a"},
            "invalid conversion: Cannot convert a", id="CF-05 keys in their order, as in the broker's maps",
        ),
    ],
)  # fmt: skip
def test_order_of_checks(declared, text):
    """CF-05: conversions, combinations, thresholds; the first error wins and nothing is created."""
    assert_refused(text, declared)


def test_an_unknown_alternate():
    """CF-05, EX-03: 404 after the conversions and before the combinations; no matter to a passive declare."""
    bench = Bench()
    with refused(542, "invalid conversion: Cannot convert x"):
        bench.declare("q", alternate="none", max_count="x")
    with refused(404, "Exchange not found: none"):
        bench.declare("q", alternate="none", shared_msg_group=1)
    assert not bench.exists("q")
    bench.declare("q")
    bench.ctl.queue_declare("q", passive=True, alternate_exchange="none")


class TestDeclaringAgain:
    def test_arguments_and_alternate_are_ignored(self):
        """CF-04, IN-08: the existing queue stays as it is, its message on it."""
        bench = queue_of(1, max_count=10)
        bench.declare("q", max_count=1, policy_type="ring", alternate="amq.fanout")
        bench.declare("other")
        bench.bind("other", "amq.fanout")
        bench.ctl.queue_delete("q")
        assert bench.stat("other").msgDepth == 0

    def test_arguments_are_still_converted(self):
        """CF-04: a bad number is refused even though nobody would use it."""
        bench = bench_with("q")
        with refused(542, "invalid conversion: Cannot convert x"):
            bench.declare("q", max_count="x")
        assert bench.exists("q")

    def test_a_passive_declare_only_looks_for_the_queue(self):
        """CF-04: 404 if there is none; the arguments are not even converted if there is one."""
        bench = Bench()
        with refused(404, "Queue not found: q"):
            bench.ctl.queue_declare("q", passive=True)
        bench.declare("q")
        bench.ctl.queue_declare("q", {"qpid.max_count": "x"}, passive=True)
        assert bench.exists("q")

    def test_a_queue_of_another_owner_is_refused(self):
        """CF-04, CN-23: 405 if somebody else owns it."""
        bench = bench_with("q", by="owner", exclusive=True)
        with refused(405):
            bench.declare("q", exclusive=True)


def test_an_empty_queue_name():
    """CF-06: purge and subscribe 531, bind 404; declaring one works."""
    bench = Bench()
    with refused(531):
        bench.ctl.queue_purge("")
    with refused(531):
        bench.session("c").message_subscribe("", "s")
    with refused(404):
        bench.bind("", "amq.fanout")
    bench.declare("")
    assert bench.exists("")
