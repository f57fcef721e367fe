"""The displays of a broker, a run, a log and so on, and the tables made from them."""

import sys
from functools import cache

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import qflow as qf
from qflow import displays

RECORDED = qf.kit_path("data") / "recordings" / "workloads" / "overflow-despite-flow-control.csv.gz"
SHOPS = qf.Workload(
    "shops",
    duration=1,
    queues={"orders": {"qpid.max_count": 100, "qpid.max_size": 0}},
    producers=(qf.Producer("p", ("", "orders"), rate=400, capacity=20, size=100),),
    consumers=(qf.Consumer("c", "orders", prefetch=5, service=("const", 0.004)),),
)


@pytest.fixture(scope="module")
def formats():
    """Return the formats in which the kernel of a notebook displays a value."""
    shell = InteractiveShell.instance()
    displays.register()
    yield lambda value: shell.display_formatter.format(value)[0]
    InteractiveShell.clear_instance()


@pytest.fixture
def broker():
    broker = qf.Broker()
    shop = broker.session("<shop>")
    shop.queue_declare(
        "<b>orders</b>", {"qpid.max_count": 10, "qpid.flow_stop_count": 3, "qpid.flow_resume_count": 2}
    )
    qf.send(shop, "<b>orders</b>", 5)
    return broker


@cache
def tables() -> dict[str, object]:
    """Return one object of each class that is a table."""
    run = qf.simulate(SHOPS)
    log = qf.ClientLog.load(RECORDED)
    workload = qf.Workload.load(RECORDED.parent / "overflow-despite-flow-control.json")
    prediction = qf.predict(workload, log, replays=1)
    doctored = qf.ClientLog("doctored", [row for row in log.rows if row.event != "transfer"])
    design = qf.recommend(SHOPS, keep_capacities=True)
    broker = qf.Broker()
    broker.session("s").queue_declare("q")
    diary = qf.Diary.of_queue(broker, "q")
    diary.note("declared")
    return {
        "run": run,
        "trace": qf.trace_of(run),
        "log": log,
        "audit": qf.audit(doctored, workload),
        "prediction": prediction,
        "recommendation": design,
        "frontier": qf.frontier(SHOPS, keep_capacities=True),
        "statistics": qf.statistics(broker),
        "diary": diary,
        "table": qf.Table([{"limit": 90, "stop": 72}]),
    }


NAMES = ["run", "trace", "log", "audit", "prediction"]
NAMES += ["recommendation", "frontier", "statistics", "diary", "table"]


@pytest.mark.parametrize("name", NAMES)
def test_what_is_a_table_gives_itself_whole_to_pandas_and_arrow(name):
    thing = tables()[name]
    frame, arrow = thing.to_pandas(), thing.to_arrow()
    columns = thing.columns()
    assert list(frame.columns) == arrow.column_names == list(columns)
    assert len(frame) == arrow.num_rows == len(next(iter(columns.values()))) > 0


def test_rows_are_those_of_the_thing():
    run, log = tables()["run"], tables()["log"]
    assert list(run.to_pandas()["kind"]) == [event.kind for event in run.events]
    assert log.to_arrow()["label"].to_pylist() == [row.label for row in log.rows]
    trace = tables()["trace"]
    assert trace.to_arrow()["detail"].to_pylist() == list(trace.detail)
    measures = tables()["prediction"].to_pandas().set_index(["name", "measure"])
    queue = tables()["prediction"]["queues"]["q"]
    assert measures.loc[("q", "max_depth"), "predicted"] == queue["predicted"]["max_depth"]
    frontier = tables()["frontier"]
    assert list(frontier.to_pandas()["is_pareto"]) == [row.is_pareto for row in frontier]


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_shown_as_html_and_as_text(name, formats):
    thing = tables()[name]
    shown = formats(thing)
    assert shown["text/html"].startswith("<table>")
    assert all(name in shown["text/plain"] for name in thing.preview().names)
    assert len(shown["text/plain"].splitlines()) <= 45


@pytest.mark.parametrize(("typed", "completed"), [("qf.fl", "flow_lab"), ("qf.design.rec", "recommend")])
def test_tab_completes_names_that_are_not_loaded_yet(typed, completed, formats):
    shell = InteractiveShell.instance()
    shell.run_cell("import qflow as qf")
    with provisionalcompleter():
        assert completed in [found.text for found in shell.Completer.completions(typed, len(typed))]


def test_within_a_list_one_line_is_enough(formats):
    assert (
        formats([tables()["log"]])["text/plain"] == "[ClientLog('overflow-despite-flow-control', 14347 rows)]"
    )


def test_away_from_ipython_the_engine_says_in_a_line_what_it_is(broker):
    assert repr(broker) == "Broker(1 queues, 1 sessions, 0 us)"
    assert repr(broker.queue("<b>orders</b>")) == "Queue('<b>orders</b>', 5 messages, flow control ON)"
    assert repr(broker.sessions["<shop>"]) == "Session('<shop>', 2 transfers held)"


def test_a_broker_is_a_table_of_its_queues(broker, formats):
    shown = formats(broker)
    assert '<td style="text-align:left">&lt;b&gt;orders&lt;/b&gt;</td>' in shown["text/html"]
    assert "<b>" not in shown["text/html"]
    (row,) = displays.broker_table(broker).rows
    assert row[:6] == ["<b>orders</b>", 5, 500, "ON", 1, "3 messages, 83886080 bytes"]
    assert formats(qf.Broker())["text/plain"].startswith("broker at 0 s: 0 queues, 0 sessions")


def test_a_queue_shows_its_levels(broker, formats):
    shown = formats(broker.queue("<b>orders</b>"))
    assert "flow control ON, turned ON 1 time; 0 consumers" in shown["text/plain"]
    assert "&lt;b&gt;orders" in shown["text/html"]


def test_a_session_shows_its_window(broker, formats):
    session = broker.sessions["<shop>"]
    shown = formats(session)
    assert "attached; complete are commands 0-3; 2 transfers held" in shown["text/plain"]
    assert "&lt;shop&gt;" in shown["text/html"]
    with pytest.raises(qf.AmqpException):
        qf.send(session, "<b>orders</b>", 10)
    assert "ended: resource-limit-exceeded" in formats(session)["text/plain"]


@pytest.mark.parametrize("option", ["java", "watermark", "overflow-list"])
def test_the_alternatives_of_flow_control_are_shown_too(option, formats):
    broker = qf.Broker(qf.BrokerOptions(flow_control=option))
    session = broker.session("s")
    session.queue_declare("q", {"qpid.flow_stop_count": 1})
    qf.send(session, "q", 3)
    for shown in (broker, broker.queue("q"), session):
        assert formats(shown)["text/html"].startswith("<table>")


@pytest.mark.parametrize(("package", "method"), [("pandas", "to_pandas"), ("pyarrow", "to_arrow")])
def test_without_the_package_the_cure_is_named(package, method, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    words = f"this needs {package}, which is not installed; to install it: pip install {package}"
    with pytest.raises(ImportError, match=words):
        getattr(qf.Table([{"a": 1}]), method)()
