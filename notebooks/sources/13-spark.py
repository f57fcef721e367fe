# %% [markdown] id="title"
# # 13 · A whole fleet
#
# *40 minutes. Chapters 3, 5 and 8 first. Needs the extra `spark`, which includes a Java: `qflow doctor
# --spark` says if it is here, and else the command that installs it. Run the cells from top to bottom with
# Shift+Enter.*
#
# At the end of this chapter you can
#
# - turn one table of what clients saw into a page about yesterday: what the broker did, by the clock;
# - say why a queue's history cannot be split, what can be, and how much that gains at most;
# - find the queues that held their producers up, ask *why?* of a single transfer, and write the `qpid-config`
#   lines for other thresholds.
#
# It begins with the page that you would want to find in the morning, and then takes it apart.

# %% [markdown] id="java-text"
# ## A Spark session
#
# Spark needs Java 17, 21 or 25. The next cell uses yours if you have one, or else the one that pip
# installed. If there is none, it says in one sentence how to get it, and the cells after it have nothing to
# do.

# %% id="java"
import json
import tempfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import qflow as qf

qf.spark.watch_cells()  # below a cell that works for more than two seconds, how far it is
RECORDED = qf.kit_path("data") / "recordings" / "workloads"
workload = qf.Workload.load(RECORDED / "fleet.json")
folder = Path(tempfile.mkdtemp())
spark = None
try:
    spark = qf.spark.session()
    qf.spark.watch_cells(spark)
    print("Spark is ready.")
except qf.RefusalError as refusal:
    print(refusal)

# %% [markdown] id="yesterday-text"
# ## Yesterday, on a page
#
# Two sites let their clients log into one table. It has what platforms have: columns of its own names, rows
# in no order, some of them twice. The south began an hour after the north. The next cell makes such a table
# out of a recording of a real broker; the one after it is all that you would write.

# %% id="table" jupyter={"source_hidden": true}
SITES = {
    "fleet/q05": "north",
    "fleet/q14": "north",
    "fleet/q22": "north",
    "fleet/q02": "south",
    "fleet/q10": "south",
}
SECONDS = 20


def write_day(folder):
    """Write the first seconds of five components as one table of two sites, and each site's workload."""
    import random
    from datetime import datetime, timedelta
    from zoneinfo import ZoneInfo

    import pyarrow
    from pyarrow import compute, parquet

    found = qf.spark.components_of(qf.spark.touches_of("fleet", workload))
    of = {(role, name): SITES[part] for (_, role, name), part in found.items() if part in SITES}
    whole = json.loads((RECORDED / "fleet.json").read_text())
    (folder / "workloads").mkdir(parents=True)
    for site in set(SITES.values()):
        part = {"name": site, "duration": SECONDS}
        part["queues"] = {
            name: own for name, own in whole["queues"].items() if of.get(("queue", name)) == site
        }
        part["binds"] = [bind for bind in whole["binds"] if bind[1] in part["queues"]]
        for role in ("producers", "consumers"):
            part[role] = [one for one in whole[role] if of.get(("client", one["name"])) == site]
        (folder / "workloads" / f"{site}.json").write_text(json.dumps(part))
    early = compute.field("ts_us") < SECONDS * 1_000_000
    begins = {"north": datetime(2026, 11, 27, 9, tzinfo=ZoneInfo("Europe/Berlin"))}
    begins["south"] = begins["north"] + timedelta(hours=1)
    rows = []
    for row in parquet.read_table(RECORDED / "fleet.parquet", filters=early).to_pylist():
        is_report = row["event"] == "stats"
        site = of.get(("queue", row["queue"]) if is_report else ("client", row["client"]))
        if site:
            when = begins[site] + timedelta(microseconds=row["ts_us"])
            names = ("node", "what", "where", "id", "bytes", "grp")
            rows.append({"site": site, "when": when, **dict(zip(names, list(row.values())[1:], strict=True))})
    chance = random.Random(13)
    rows += chance.sample(rows, len(rows) // 100)
    chance.shuffle(rows)
    (folder / "events").mkdir()
    for number in range(2):
        parquet.write_table(
            pyarrow.Table.from_pylist(rows[number::2]), folder / "events" / f"{number}.parquet"
        )
    return len(rows)


if spark:
    print(f"{write_day(folder)} rows in one table")

# %% id="yesterday"
report = None
if spark:
    table = qf.spark.EventsTable(
        str(folder / "events"),
        str(folder / "workloads"),
        columns="time=when,client=node,event=what,queue=where,label=id,size=bytes,group=grp",
        component="site",
        zone="Europe/Berlin",
    )
    print(qf.spark.make_lake_of_table(spark, table, folder / "day", day="2026-11-27"))
    yesterday = qf.spark.audit_to(spark, folder / "day", folder / "results")
    report = qf.spark.report_day(spark, folder / "results")
report

# %% [markdown] id="yesterday-then"
# Read it from the top. First come the doubts about the page: rows that made no sense, spans of time with
# missing rows, components that cannot be judged. Then the two logs, with the clock at which each
# begins, and the queues that let producers wait. No row of the table says "ON", or "held": the engine has
# worked that out.
#
# ## How it was made
#
# | step | what one worker does with one site's rows |
# |---|---|
# | *gather* | Spark brings the rows of a site together, in one exchange, sorted by time |
# | *clean* | drops duplicates, compares clocks, finds gaps, puts nonsense into a **quarantine** |
# | *split* | who touches what: the **components**; the events of each get numbers |
# | *audit* | the engine over each component: what was ON, held, blocked and owned |
#
# The second half has a table of its own, the **lake**: whatever is asked later begins there. From a terminal
# the same is
#
#     qflow spark audit --table events --workloads workloads --component site --map time=when,client=node,… \
#       --lake day --out results --day 2026-11-27 --fail-on 'findings > 0'
#     qflow spark report results --page day.html

# %% [markdown] id="question"
# **A question to begin with.** You have a night's log of a thousand queues and a hundred machines. Which one
# thing decides how long you wait for the answer?

# %% [markdown] id="predict-text"
# ## Predict before you run
#
# The whole recording is larger: a real broker's, 24 producers, 27 queues of every kind, 150 seconds, about
# 540,000 events. No two producers share a queue; three of them send to two queues each.

# %% id="predict" jupyter={"source_hidden": true}
predictions = qf.Predictions("13-spark")
predictions.ask()

# %% [markdown] id="naive-text"
# ## The naive way: split the log by time
#
# Half a million events, two workers: give each of them half. Let us see what the second worker would find. We
# take one queue's events, and start in the middle.


# %% id="naive"
LOOKED_AT = ("fleet/q22", "fleet/q05", "fleet/q02", "fleet/q14")
events, in_memory, largest = {}, {}, ""
try:
    # A small machine has not the room for all: the number of events of each, and four components whole.
    events, in_memory = qf.spark.read_components(RECORDED / "fleet.parquet", workload, LOOKED_AT)
    largest = max(events, key=events.get)
except qf.LogError as error:
    print(error)


def held_after(results, time):
    return sum(result.kind == "held" and result.begin_us >= time for result in results)


if in_memory:
    rows = in_memory["fleet/q22"]
    middle = rows[len(rows) // 2]
    whole = qf.spark.audit_in_memory({"fleet/q22": rows})
    half = qf.spark.audit_in_memory({"fleet/q22": [rows[0], *rows[len(rows) // 2 :]]})
    seen_by_whole, seen_by_half = held_after(whole, middle[1]), held_after(half, middle[1])

    print(f"q22, from the middle on, seen by one who knows all: {seen_by_whole} transfers held")
    print(f"and by one who begins there: {seen_by_half}")
    print(next(qf.logs.finding_of(result).sentence() for result in half if result.finding == "gap"))
    assert seen_by_half != seen_by_whole

# %% [markdown] id="naive-then"
# The second worker does not know which messages were on the queue when its half began. A queue's history is
# a **sequential state machine**: the effect of an event depends on all events before it. Splitting by time
# is wrong; the audit says so itself, as it sees that the numbers before its first event are missing.

# %% [markdown] id="components-text"
# ## The mechanism: components
#
# What *can* be split is what never influences one another. Draw a line from each client to each queue it
# touches. All that is connected is a **component**. It is a small table, and `networkx` finds the parts.

# %% id="components"
components = qf.spark.components_of(qf.spark.touches_of("fleet", workload))
names = sorted(set(components.values()))

print(len(workload.queues), "queues,", len(names), "components")
print("with q10:", [member for (_, _, member), name in components.items() if name == "fleet/q10"])

# %% [markdown] id="why-text"
# ## One transfer, and why
#
# A page gives sums. Behind each is a single transfer of a single producer, and the engine can be asked about
# it. Of the transfers that the worst queue held, take the one that waited longest: in the middle of its wait,
# why could its producer not send?

# %% id="why"
if spark:
    worst = report.worst[0]
    spell = qf.spark.questions.spans(yesterday.where("kind != 'log'"), "held").where(
        f"queue = '{worst.queue}'"
    )
    longest = spell.orderBy("length_us", "number", ascending=[False, True]).first()
    part, log = qf.spark.component_log(qf.spark.read_lake(spark, folder / "day"), longest.component)
    trace = qf.trace_of(qf.replay(log, part))
    middle = longest.begin_us + longest.length_us // 2
    print(
        f"{longest.message} of {longest.client} waited {longest.length_us / 1e6:.2f} s for {longest.queue}."
    )
    print(qf.explain(trace, subject=f"producer:{longest.client}", time=middle).text(with_sources=False))

# %% [markdown] id="stream-text"
# ## The same as a stream
#
# Yesterday's table was whole. Events that still come have no end, and Kafka gives them late and twice. So a
# component counts as ended when it has been silent for a while; then its events are cleaned and audited as
# above. Here all files are taken at once, so that there is something to compare.

# %% id="stream"
if spark:
    live = qf.spark.audit_events(spark, table, once=True)
    query = qf.spark.stream.start(live, folder / "live", once=True)
    query.awaitTermination()
    streamed = qf.spark.stream.read_results(spark, folder / "live")
    alone = yesterday.where("kind != 'log'")
    print(
        "the same results:", qf.spark.result_hash(streamed.collect()) == qf.spark.result_hash(alone.collect())
    )

# %% [markdown] id="lake-text"
# ## The whole recording
#
# Now all of it, from its file: a log that is a file takes the same way as a part of a table. The numbers of
# the events are given once. Whatever is asked later, and however the files lie by then, Spark brings each
# component's events together and in order; and if one is missing, its number tells.

# %% id="lake"
if spark:
    print(qf.spark.make_lake(spark, [RECORDED / "fleet.parquet"], folder / "lake", buckets=8))

# %% [markdown] id="audit-text"
# ## The audit
#
# Now the same engine that you have stepped through since chapter 1 runs over each component. It gets the
# clients' actions, and derives the facts that no log recorded: each held completion, with its queue and the
# reason of its release.

# %% id="audit"
if spark:
    lake = qf.spark.read_lake(spark, folder / "lake")
    results = qf.spark.audit(lake).persist()
    for row in sorted(results.groupBy("kind").count().collect()):
        print(f"{row['count']:6} {row.kind}")

# %% [markdown] id="trust-text"
# ### Can you trust it?
#
# Twenty times a second a program asked the real broker for its statistics. The engine did *not* get them,
# so they can be compared with its results.

# %% id="trust"
if spark:
    reports = qf.spark.questions.findings(results).where("finding = 'reports'").collect()
    agreeing = sum(row.seen for row in reports)
    asked = sum(row.expected for row in reports)
    print(f"flowStopped agrees in {agreeing} of {asked} reports ({agreeing / asked:.2%})")
    worst_report = min(reports, key=lambda row: (row.seen, row.queue))
    print(worst_report.queue, "is the worst:", qf.logs.finding_of(worst_report).sentence())

# %% [markdown] id="trust-then"
# The rest are moments within a few milliseconds of a change: the clients' clocks are not the broker's.
#
# ### Does it depend on how it was run?
#
# The same audit of four components once more, the largest among them, as a plain loop in this process,
# without Spark, and its hash beside Spark's.

# %% id="same"
if spark:
    of_four = results.where(results.component.isin(*LOOKED_AT)).collect()
    print(
        "the same results:",
        qf.spark.result_hash(of_four) == qf.spark.result_hash(qf.spark.audit_in_memory(in_memory)),
    )

# %% [markdown] id="picture-text"
# ### What the broker said of itself
#
# Several times a second the recorder asked a real broker which of its 27 queues were ON. Here are its answers
# for the whole recording; you have seen twenty seconds of five components.

# %% id="picture" jupyter={"source_hidden": true}
picture = None
try:
    from pyarrow import parquet
except ImportError:
    print("The picture needs pyarrow, which comes with the extra spark.")
else:
    # A report says in its third value whether the queue was ON.
    is_report, columns = [("event", "==", "stats")], ["queue", "ts_us", "label"]
    reports = parquet.read_table(RECORDED / "fleet.parquet", columns=columns, filters=is_report).to_pylist()
    asked, was_on = Counter(), Counter()
    for row in reports:
        step = row["queue"], row["ts_us"] // 5_000_000
        asked[step] += 1
        was_on[step] += json.loads(row["label"])[2]
    said = [
        SimpleNamespace(queue=queue, step=at, on_us=5_000_000 * count / asked[queue, at])
        for (queue, at), count in sorted(was_on.items())
        if count
    ]
    del reports, asked, was_on  # a small machine needs the room
    picture = qf.spark.figures.heat_map(said, sorted(workload.queues), seconds=165, step=5)
picture

# %% [markdown] id="heat-text"
# ## Which queues were ON, and when

# %% id="heat"
from IPython.display import display

if spark:
    display(
        qf.spark.figures.heat_map(
            qf.spark.questions.on_over_time(results, step_us=5_000_000).collect(),
            sorted(workload.queues),
            seconds=165,
            step=5,
            most=qf.spark.questions.most_at_once(results),
        )
    )

# %% [markdown] id="worst-text"
# ## Who waited for whom
#
# A queue that is ON is not yet a problem. What costs is a transfer whose completion a producer waits for. So
# the queues are ranked by the time that all the transfers they held have waited, taken together.

# %% id="worst"
if spark:
    offenders = qf.spark.questions.offenders(results).collect()
    display(qf.spark.figures.offender_bars(offenders))

# %% [markdown] id="worst-then"
# Look at `q14b`: it was ON only **once**, and is among the worst. It is one of two queues that the same
# producer sends to; it never got below its resume threshold again, and every message that went to both
# queues waited for the slower one (chapter 8). A count of how often queues turn ON would never have shown it.

# %% id="holds"
if spark:
    display(qf.spark.figures.hold_boxes(qf.spark.questions.hold_times(results).collect()))

# %% [markdown] id="groups-text"
# ## Groups
#
# Eight queues share ordered messages among consumers by groups. Which groups had an owner nearly all the
# time?

# %% id="groups"
if spark:
    display(qf.spark.figures.group_bars(qf.spark.questions.group_spots(results).collect()))

# %% [markdown] id="report-text"
# ## All of it on a page
#
# What you asked one by one, `report_on` asks at once, as it did for yesterday's page: the worst queues, the
# findings, the charts. From a terminal `qflow spark report` writes the same as a page.

# %% id="report"
if spark:
    whole = qf.spark.report_on(results, of="the recorded fleet")
    print(whole)
    Path(folder, "fleet.html").write_text(whole.page())

# %% [markdown] id="whatif-text"
# ## What if
#
# qflow extracts the **workload** behind the log: the intended send times of each producer, the service
# times of each consumer. It is run again under other thresholds. `q22` is overloaded: its consumers are
# slower than its producer.


# %% id="whatif"
def scaled(factor):
    scale = f"x{factor}"
    thresholds = {"qpid.flow_stop_count": scale, "qpid.flow_resume_count": scale}
    return qf.spark.FleetSettings(f"thresholds x {factor}", {"*": thresholds})


deeper = "yes"
if spark:
    grid = [qf.spark.AS_RECORDED, scaled(0.25), scaled(0.5), scaled(2), scaled(4)]
    measures = qf.spark.what_if(lake.where("component = 'fleet/q22'"), grid).collect()
    display(qf.spark.figures.frontier(measures, "q22", "p22"))
    blocked = {row.setting: row.predicted for row in measures if row.measure == "blocked_share"}
    deeper = "yes" if blocked["thresholds x 4"] < blocked["as recorded"] else "no"

# %% [markdown] id="whatif-then"
# Every point is a compromise: less blocking, a deeper queue. None of them makes the consumers faster. The
# gain of the highest thresholds is the room that 150 seconds filled only once; in a longer night it would
# be used up.
#
# ## Thresholds that are safe
#
# A threshold is safe if the queue cannot overflow: the stop, and the windows of all producers above it, fit
# within the limit (`qflow design` gives the reasons). Suppose every queue that declares no limit may hold
# 500 messages.

# %% id="design"
if spark:
    some = lake.where("component in ('fleet/q00', 'fleet/q10', 'fleet/q22')")
    advice = (
        qf.spark.advise(some, {"*": qf.design.Limits(count=500)}, messages=300).orderBy("queue").collect()
    )
    for row in advice:
        print(row.line)
        print("    because", row.reasons.split("; ")[0])

# %% [markdown] id="skew-text"
# ## How far it can be spread
#
# Components differ in size. Whatever the number of workers, the audit ends no sooner than its **largest**
# component: this is Amdahl's law, with this fleet's own numbers.

# %% id="skew"
at_most = None
if in_memory:
    at_most = round(qf.spark.bound(events))
    print(f"the largest is {largest}: {events[largest]} of {sum(events.values())} events")
    for workers in (1, 2, 8, 24, 1000):
        print(f"{workers:5} workers: {qf.spark.speed_up(events, workers):.1f} times as fast as one")

# %% [markdown] id="cut-text"
# ### Cutting after all
#
# A component can be cut in time if each piece begins with the **state** that the one before it ended with.
# Such states are recorded once, as checkpoints; every later audit can begin at any of them. The largest
# component in eight pieces, each audited separately and in any order:

# %% id="cut"
if in_memory:
    rows = in_memory[largest]
    every = -(-len(rows) // 8)
    checkpoints = list(qf.spark.take_checkpoints(largest, rows, every))
    pieces = [
        result
        for component, seq, state in reversed(checkpoints)
        for result in qf.spark.audit_from_checkpoint(
            component, state, rows[seq : seq + every], seq + every >= len(rows)
        )
    ]
    same = qf.spark.result_hash(pieces) == qf.spark.result_hash(qf.spark.audit_in_memory({largest: rows}))
    print(f"{len(checkpoints)} pieces; the same results: {same}")

    cut = {name: count for name, count in events.items() if name != largest}
    cut |= {f"piece {seq}": min(every, len(rows) - seq) for _, seq, _ in checkpoints}
    print(f"bound before: {qf.spark.bound(events):.1f}, with the largest cut: {qf.spark.bound(cut):.1f}")

# %% [markdown] id="rest-text"
# And where no state was kept? Sometimes the log itself shows a moment at which every message sent had been
# accepted. There a fresh engine *ought* to continue like the old one. That is a guess, and is checked: each
# piece begins fresh, and when all are done, the state that one piece ended in is compared with the one the
# next began with. Only its counters may differ. A piece that was begun wrongly is done again.

# %% id="rest"
for name in ("fleet/q05", "fleet/q02", largest) if in_memory else ():
    rows = in_memory[name]
    stitched = qf.spark.audit_cut(name, rows, 6)
    same = qf.spark.result_hash(stitched.results) == qf.spark.result_hash(
        qf.spark.audit_in_memory({name: rows})
    )
    print(
        f"{name}: {len(qf.spark.rest_places(rows))} quiet moments; {stitched.repeated} pieces done again; "
        f"the same results: {same}"
    )

# %% [markdown] id="rest-then"
# `q05` is often empty, and every guess held. The shared groups of `q02` remember whose turn it is, and the
# check noticed. The largest component is never quiet: a queue that is never empty cannot be cut without a
# state. `qflow spark audit` cuts in this way by itself, where one component is more than its share of all.

# %% [markdown] id="answer-text"
# ## Back to the question
#
# Not the number of machines: the **largest component**. It is one sequence, and its events have to be taken
# one after the other, unless you have kept states to begin at.

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
# Where there is no Spark, these two are as they were when the chapter was built.
predictions.compare(components=len(names), speed_up=at_most or 12, deeper=deeper)

# %% id="end"
if spark:
    spark.stop()

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - One table, in any order, is enough: components, order, clocks and gaps are worked out of it.
# - A queue's history is **sequential**: split by component, never by time, unless the state is kept.
# - The numbers are given once, by the layout; the audit checks them and never assumes an order.
# - The same results for any number of workers, any batch size, with Spark and without.
# - Rank queues by the time **transfers waited**, not by how often they turned ON.
# - Higher thresholds mean less blocking and a deeper queue; in the long run the consumers set the pace.
#
# ## On your own logs
#
# The same from a terminal, and on a cluster ([Spark operations](reference/spark-operations.md) says how):
#
#     qflow spark audit monday.parquet tuesday.parquet --lake lake --out results
#     qflow spark report results --page day.html
#     qflow spark sweep --lake lake --settings grid.json --out sweep
#     qflow spark stream --source kafka --option subscribe=logs --map time=value.at,… --workloads w --out live
#     qflow spark synth --queues 200 --events 1000000 --out big
#
# ## Where next
#
# - In code: `qflow/logs/audit.py` (one component, no Spark), `qflow/spark/lake_audit.py` (on Spark).

# %% [markdown] id="exercises"
# ## Exercises
#
# [Exercises 13 · A whole fleet](../exercises/13-fleet.ipynb), 20 minutes: into how many parts a log can be
# split, which worker is done last, and how long transfers waited; they need neither Spark nor Java. The
# next chapter is [14 · Under the hood](14-under-the-hood.ipynb).
