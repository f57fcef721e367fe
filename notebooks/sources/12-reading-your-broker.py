# %% [markdown] id="title"
# # 12 · Reading your own broker
#
# *40 minutes. Chapters 1, 4 and 7 first. Run the cells from top to bottom with Shift+Enter.*
#
# At the end of this chapter you can
#
# - read in the broker's own log when each queue was ON, and who died;
# - read a queue's statistics and know what they hide;
# - set an alert that comes before flow control does;
# - write a client log, replay it, and ask of any instant *why*;
# - ask *what if*, and get settings that are safe, with the reasons.
#
# **A question to begin with.** It is Monday morning. On Sunday night your producers were blocked for some
# minutes. All you have are two logs, the broker's and its clients'. What can you still find out?

# %% [markdown] id="already-text"
# ## What you already have: the broker's own log
#
# Every broker writes a log. Here is one of 22 lines, of a broker with four queues and five producers. Each
# time a queue turned ON or OFF there is a line.
#
# **Before you run the cell:** one queue turns ON seven seconds after the start and has no consumer. What does
# the log say about it at its end?

# %% id="already"
import qflow as qf

logs = qf.kit_path("data") / "recordings" / "broker-logs"
broker_log = qf.BrokerLog.load(logs / "info-hires.log")
words = {"event": "what:{sent=transfer,accepted=accept,failed=error}", "label": "number"}
clients = qf.ClientLog.load(logs / "info-hires.clients.jsonl.gz", columns=words)
qf.broker_log_chart(broker_log, clients)

# %% [markdown] id="already-then"
# Above are the queues, as the broker saw them; below are the producers, by their own clock. While `orders` is
# ON, `shop-1` and `shop-2` send nothing. `billing` stops in the first second of `invoices`' spell and never
# sends again. And about `invoices` there is no line at the end: **a log does not say that a queue is still
# ON**, you have to notice that its OFF is missing. *(FC-14, FC-16)*

# %% id="already-table"
broker_log

# %% [markdown] id="default-text"
# ### If your log says nothing
#
# Those lines are of level *info*, and a broker that is started without a word about logging writes notices,
# warnings and errors only. Then its log holds the session that died of a full queue, and not a word about
# flow control. That is no good news; it is no news:

# %% id="default"
print(*qf.BrokerLog.load(logs / "default.log").sentences(), sep="\n")

# %% id="default-check" jupyter={"source_hidden": true}
assert broker_log.still_on == ["invoices"] and broker_log.queues["orders"].stops == 3

# %% [markdown] id="default-then"
# For your own broker: `qflow trace broker-log FILE…` in a terminal, with all rotated files at once, packed or
# not. `--clients LOG --html OUT.html` makes the picture above.

# %% [markdown] id="predict-text"
# ## Predict before you run
#
# The recording used below: one producer sends 400 messages a second, one consumer manages 200. The queue
# stops above 900 and resumes below 500; the producer's capacity is 100. It ran for 30 seconds.

# %% id="predict" jupyter={"source_hidden": true}
predictions = qf.Predictions("12-reading-your-broker")
predictions.ask()

# %% [markdown] id="naive-text"
# ## The naive way: watch the depth
#
# The first thing on any dashboard is a queue's depth. Here are three queues with the same depth. They have
# nothing else in common.

# %% id="naive"
QUEUES = {
    "steady": (10, {"qpid.max_count": 100}),
    "stopped": (10, {"qpid.max_count": 12, "qpid.flow_stop_count": 9, "qpid.flow_resume_count": 2}),
    "dropping": (500, {"qpid.max_count": 10, "qpid.policy_type": "ring"}),
}
broker = qf.Broker()
for name, (number, arguments) in QUEUES.items():
    producer = broker.session(f"to {name}")
    producer.queue_declare(name, arguments)
    qf.send(producer, name, number)
stuck = qf.Reader(broker, "stuck", "stopped", prefetch=10)

shown = ["name", "msgDepth", "messageCount", "flowStopped", "flowStoppedCount", "discardsRing"]
columns = qf.statistics(broker).columns()
qf.Table(list(zip(*(columns[name] for name in shown), strict=True)), shown, "three queues")

# %% [markdown] id="naive-then"
# The first is healthy. The second makes a producer wait, and its one consumer holds all ten messages: none is
# *available*. The third has lost 490 messages and holds the last ten.
#
# | look at | it tells you |
# |---|---|
# | `msgDepth`, `byteDepth` | what flow control and limits count, messages in consumers' hands included |
# | `messageCount` (queue query) | messages still available; far below `msgDepth`: slow or stuck consumers |
# | `flowStopped` | is it ON *now*; two looks can miss a change between them |
# | `flowStoppedCount` | how often it turned ON; ask twice and subtract |
# | `discardsRing`, `discardsTtl`, `discardsOverflow`, `discardsLvq` | messages lost, by cause |
# | `acquires` − `releases` − `msgTotalDequeues` | what consumers hold |
#
# There is **no event and no log line above info level** for flow control. A program that never asks for
# `flowStopped` does not find out. *(CM-15, IN-09)*

# %% id="console"
connection = qf.messaging.Connection.establish("monday.example")
sender = connection.session().sender(
    "orders; {create: always, node: {x-declare: {arguments: {'qpid.flow_stop_count': 3}}}}"
)
sender.capacity = 10
for number in range(5):
    sender.send(f"order {number}", sync=False)

management = qf.messaging.console.Session()
management.addBroker("monday.example")
(queue,) = management.getObjects(_class="queue", name="orders")
print("depth", queue.msgDepth, "ON", queue.flowStopped, "turned ON", queue.flowStoppedCount)

# %% [markdown] id="alert-text"
# ### Alerts: ask for a message
#
# A queue can raise an event when it fills up. Its threshold is 80 percent of a declared limit by default, the
# same as flow control's, but it compares differently: an alert comes **at** the threshold, flow control
# **above** it. And it is armed again at half of it. Watch both on a queue for 10 messages. *(QT-11 to QT-14)*

# %% id="alert"
broker = qf.Broker()
producer = broker.session("producer")
producer.queue_declare("orders", {"qpid.max_count": 10})
diary = qf.Diary("limit 10: stop above 8", messages=lambda: broker.queue("orders").statistics().msgDepth)

told = ("queueThresholdCrossed", "flow_stopped", "flow_resumed")
broker.observe(lambda event: diary.note(event.kind) if event.kind.startswith(told) else None)
qf.send(producer, "orders", 10)
qf.Reader(broker, "consumer", "orders").take(10)

diary

# %% id="alert-check" jupyter={"source_hidden": true}
assert diary.column("messages") == [8, 9, 6, 4]

# %% [markdown] id="alert-then"
# (Real brokers send the two alerts to consoles; the two `flow_` events exist in the engine only.) If you want
# time to react, set `qpid.alert_count` well below the stop threshold.

# %% [markdown] id="log-text"
# ## The mechanism: a client log is enough
#
# The broker forgets. But your clients can log each event in one line: sent, completed, blocked, delivered
# or accepted, with the time. The recordings of this book are such logs. Here are the first lines of one:

# %% id="log"
recordings = qf.kit_path("data") / "recordings" / "workloads"
log = qf.ClientLog.load(recordings / "slow-consumer.csv.gz")
workload = qf.Workload.load(recordings / "slow-consumer.json")
clients = [row[:6] for row in log.rows if row.event != "stats"]
qf.Table(clients[:8], log.rows[0]._fields[:6], f"the first of {len(log.rows):,} lines")

# %% [markdown] id="log-then"
# `data/README.md` describes the columns. Any program that writes these lines will do, as CSV or Parquet. On
# the command line, `qflow predict WORKLOAD.json LOG` does the same as the rest of this chapter.

# %% [markdown] id="replay-text"
# ### Replay: what the broker must have done
#
# The log says nothing about the queue. The engine is fed with the sends and the accepts at their recorded
# times, and works out the rest: whose completion was held, when flow control turned ON. In this recording a
# program queried the real broker every 50 milliseconds, so that we can check.

# %% id="replay"
replayed = qf.recorded_picture("slow-consumer")
qf.depth_chart(replayed)

# %% id="replay-words"
print(*replayed.claims[-3:], sep="\n")

# %% [markdown] id="why-text"
# ### Why?
#
# Now to Sunday night. Take any instant: at eight and a half seconds the producer `p1` is blocked. Why? The
# answer is a chain. Each link rests on the ones below it, down to a cause outside the broker: a setting,
# or a client's own action.

# %% id="why"
beginning = qf.ClientLog(log.name, [row for row in log.rows if row.ts_us <= 9_000_000])
answer = qf.explain(qf.trace_of(qf.replay(beginning, workload)), subject="producer:p1", time=8_500_000)
print(answer.text(with_sources=False))

# %% [markdown] id="latency-text"
# ### How long did the producer wait for its answers?
#
# Half of the completions came within a fraction of a millisecond, those sent while the queue was OFF. The
# others waited for the queue to drain. An average would say nothing here.

# %% id="latency"
qf.latency_chart(replayed)

# %% [markdown] id="lab-text"
# ### The lab: open any log
#
# `qf.trace_lab` opens a client log or a trace from a file, with the whole picture: windows, queue, consumers,
# and the chain of reasons for whatever you click. Put the name of your own file here.

# %% id="lab"
qf.trace_lab(qf.kit_path("data") / "recordings" / "workloads" / "capacity-165.csv.gz")

# %% [markdown] id="what-if-text"
# ## The surprise: what if?
#
# A log holds one run. But it also holds what drove it: when the producer meant to send, and how long the
# consumer worked on each message. That is the **workload** behind the log, and it can be run again under
# other settings. First under the recorded ones, to see how good that is. The recorded values are beside
# the predicted ones:

# %% id="what-if"
same = qf.predict(workload, log, replays=9)
same

# %% [markdown] id="how-sure-text"
# ## How sure is that?
#
# Record the same workload twice and you get two results: the machine was faster or slower, it had more or
# less other work to do, at other moments, and of two things that happened at almost the same time the other
# one was first. Your log is one such draw, and the run you predict is another. So the prediction consists
# of several replays, here nine, each with another machine and another seed, and gives an interval for each
# measure, *low* to *high* in the table above. Four of five recordings should be inside.

# %% [markdown] id="band-text"
# The same as a picture: at each moment the depth was in the band in four of five replays. The line is one
# replay.

# %% id="band"
band = qf.depth_chart(same)
band

# %% [markdown] id="band-then"
# At first little is left to chance: the queue fills up to the stop threshold at almost the same moment each
# time, and the band is thin. Each turn of flow control adds a little: how fast the machine is, how soon the
# queue is down at 500, and how soon the producer has noticed. So the band grows with time, although the
# *average* stays as it is. Ask for the average depth, or for the number of turns, and the answer is good. Ask
# how deep the queue is at second 25, and the band says: that is chance.

# %% [markdown] id="calibration-text"
# Is that true? It was tried on recordings that the prediction had not seen. The [reliability
# diagram](images/calibration.svg) shows the result: to the right, how many of 100 cases an interval
# promises to hold; upwards, how many it held. On the diagonal an interval keeps its promise. Above it the
# interval is wider than it need be: honest, but it says little. Below it it is too narrow: it claims to
# know more than it does. The [page beside it](reference/calibration.md) has the figures for each recording,
# and separately the figures of runs recorded on another day, by another machine, of which fewer are inside.
#
# Some queues cannot be predicted narrowly, however long you record: if consumers are 1 % faster than
# producers, the depth is a walk in which each step is chance. The report calls such a queue *near-critical*
# and says why. And where a session dies in some replays and lives in others there is a prediction for each:
# "p1 dies at 6.9 to 7 s (5 %): …; every session lives (67 %): …". One interval over both would say nothing.

# %% [markdown] id="receipt-text"
# ### Write it down, and look later
#
# A prediction is worth something if it was made before. So keep a **receipt**: the prediction, its log and
# its settings. After the change, hold a new log against it. The same clients were recorded three more
# times; here is the receipt of the prediction above, held against all three:

# %% id="receipt"
receipt = qf.prediction.receipt_of(same)
later = [recordings / "repeats" / f"slow-consumer-{run}.csv.gz" for run in (1, 2, 3)]
scores = [qf.prediction.score(receipt, qf.ClientLog.load(path))["measures"] for path in later]
rows = [
    (one["measure"], one["low"], one["high"], *(own[place]["recorded"] for own in scores))
    for place, one in enumerate(scores[0])
]
qf.Table(rows, ["measure", "low", "high", "run 1", "run 2", "run 3"], "predicted, and what came")

# %% id="receipt-words"
inside = [sum(one["inside"] for one in own) for own in scores]
print(f"inside: {inside[0]}, {inside[1]} and {inside[2]} of {len(rows)} measures")

# %% id="receipt-check" jupyter={"source_hidden": true}
assert sum(inside) >= 0.75 * 3 * len(rows)

# %% [markdown] id="receipt-then"
# In a terminal: `qflow predict WORKLOAD.json LOG --receipt monday.json`, and later `qflow predict --score
# monday.json LOG`. The page about calibration has the scores of all recordings that were repeated.
#
# What if the log and the workload file do not belong together? Then flow control held completions that these
# thresholds would not have held, or the other way round. The command says so first, before any number; with
# `--infer` the thresholds are read from the log: at which depths completions began to be held, and at which
# they came.

# %% id="infer"
wrong = workload.with_queue("orders", {"qpid.flow_stop_count": 300, "qpid.flow_resume_count": 200})
read = qf.predict(wrong, log, infer=True, replays=1)
print(*read["inferred"]["sentences"], sep="\n")

# %% [markdown] id="what-if-other-text"
# Good enough to trust it with a change. What if the queue had stopped above 300, and resumed below 200?

# %% id="what-if-other"
lower = qf.Settings(queues={"orders": {"qpid.flow_stop_count": 300, "qpid.flow_resume_count": 200}})
other = qf.predict(workload, log, lower, replays=3)
other

# %% [markdown] id="what-if-then"
# The queue is less than half as deep, so each message waits less than half as long, and **not one message
# fewer is processed**. The longer queue brought no gain. That surprises most people. A queue has to be long
# enough that the consumer always has a message while the producer is released; every further message only
# waits.
#
# Lower thresholds do not relieve the producer, so this holds whatever more it wanted to send. Higher ones do,
# and then a log has less to say than it seems.

# %% [markdown] id="cannot-show-text"
# ### What a log cannot show
#
# A log holds what was *sent*. While a producer is blocked, its next message waits, and nobody writes down
# since when, or how many wait behind it. Here is the proof: two producers. The eager one wants to send 100
# messages a second; its consumer takes 50. The patient one never wants more than the eager one was allowed
# to send. Compare their logs, row by row. Then let the queue stop above 200 in place of 20. (The folded cell
# makes the clients.)

# %% id="cannot-show-parts" jupyter={"source_hidden": true}
# The two producers' clients, the rows of their logs, and the share of time ON.
END = 10_000_000


def clients(due):
    sends = {"arrival": "recorded", "recorded": tuple((seconds, 100, "") for seconds in due)}
    return qf.Workload(
        "two demands",
        END / 1e6,
        {"orders": {"qpid.flow_stop_count": 20, "qpid.flow_resume_count": 10}},
        producers=(qf.Producer("p1", ("", "orders"), 100, 15, size=100, **sends),),
        consumers=(qf.Consumer("c1", "orders", prefetch=5, service=("const", 0.02)),),
    )


def rows_of(workload):
    return [row for row in qf.ClientLog.of(qf.simulate(workload)).rows if row.ts_us <= END]


def wishes(rows):
    # A message that met a full window was wanted when it met it, any other when it was sent.
    acts = [row for row in rows if row.event in ("block", "transfer")]
    pairs = zip(acts[:1] + acts, acts, strict=False)
    return [row.ts_us / 1e6 for before, row in pairs if before.event != "block"]


def share_on(workload):
    turned = ("flow_stopped", "flow_resumed")
    run = qf.simulate(workload)
    turns = [event.time for event in run.events if event.kind in turned and event.time < END]
    turns.append(END)
    return sum(off - on for on, off in zip(turns[::2], turns[1::2], strict=False)) / END


# %% id="cannot-show"
eager = clients(n / 100 for n in range(1000))
recorded = rows_of(eager)
patient = clients(wishes(recorded))
print(len(eager.producers[0].recorded), "and", len(patient.producers[0].recorded), "messages wanted")
print("the same log:", rows_of(patient) == recorded)

higher = qf.Settings({"orders": {"qpid.flow_stop_count": 200, "qpid.flow_resume_count": 100}})
shares = [share_on(higher.apply(each)) for each in (eager, patient)]
print(f"stop above 200: ON {shares[0]:.0%} of the time for the eager one, {shares[1]:.0%} for the patient")

# %% [markdown] id="cannot-show-then"
# One log, two answers, and both are right. Statisticians call such a demand *censored*. So `qf.predict` runs
# the least demand that fits the log and the most, and if they differ the answer is a bound:

# %% id="bound"
import textwrap

bound = qf.predict(eager, qf.ClientLog("two demands", recorded), higher, replays=4)
said = [line for line in bound.text().splitlines() if "at least" in line]
print(*(textwrap.fill(line, 96) for line in said), sep="\n")

# %% id="bound-check" jupyter={"source_hidden": true}
low, high = bound["queues"]["orders"]["interval"]["share_on"]
assert rows_of(patient) == recorded and bound["is_bound"] and low <= shares[1] < shares[0] <= high

# %% [markdown] id="bound-then"
# Two things settle it. You know the rate: `qf.predict(…, demand={"p1": 100})`, or `--demand p1=100/s`. Or you
# record a spell without blocking: a producer that has caught up, and sends at its own pace while its window
# has room, shows its demand.

# %% [markdown] id="design-text"
# ## Settings that are safe
#
# The rule of chapter 4 says when a queue can overflow. `qf.design.judge_workload` applies it to all queues of
# a workload, in both units. Here are three shops with a common queue and the default thresholds:

# %% id="design"
shops = qf.Workload(
    "three shops",
    duration=10,
    queues={"orders": {"qpid.max_count": 200, "qpid.max_size": 0}},
    producers=tuple(qf.Producer(f"shop{n}", ("", "orders"), 60, 20, size=200, seed=n) for n in (1, 2, 3)),
    consumers=(qf.Consumer("warehouse", "orders", prefetch=10, service=("exp", 0.007), seed=4),),
)
verdict = qf.design.judge_workload(shops)["orders"]
print("can it overflow?", {True: "yes", False: "no", None: "not proved"}[verdict.can_overflow])
print(*verdict.reasons, sep="\n")

# %% [markdown] id="recommend-text"
# And `qf.recommend` searches for settings that cannot, runs each with the workload, and gives their costs:

# %% id="recommend"
made = qf.recommend(shops, keep_capacities=True, message_limit=600)
print(made.lines["orders"])
print(*made.verdicts["orders"].reasons, sep="\n")
deepest = made.evidence.max_depth["orders"]
print(f"in a run of {made.evidence.transfers} messages it was never more than {deepest} deep")

# %% [markdown] id="recommend-then"
# On the command line: `qflow design WORKLOAD.json`.
#
# ## A goal
#
# A team asks for more than "no overflow": nobody shall wait long for a window, say. That is a goal (an SLO),
# and `slo` takes several. Each one **holds** with room for chance, is **close**, or is **missed**; then the
# settings are the nearest, and `asked.counterexample()` is a run that breaks it, with the second at which it
# does.

# %% id="goal"
asked = qf.recommend(shops, slo=["p99 wait < 2s", "loss 0", "depth < 200"], message_limit=600)
for outcome in asked.goals:
    print(outcome.sentence())

# %% [markdown] id="goal-then"
# A wait is from when a message is due to its transfer. On the command line: `qflow design WORKLOAD.json --slo
# 'p99 wait < 2s' --counterexample broken.jsonl.gz`, which also says how to open that run at that second.

# %% [markdown] id="real-text"
# ## What the real broker did
#
# A recorded scenario about alerts: up 10, down 5. The event comes **at** 10, once, and again only after the
# queue was down to 5. The table shows which steps raised an event; the model raised the same ones.

# %% id="real"
qf.beside("al-hysteresis", depth="queues.q.depth", events="events")

# %% [markdown] id="answer-text"
# ## Back to Monday
#
# With the clients' log you can explain each wait, at each instant, down to the consumer that was slow. You
# can say how much other thresholds would have changed, and that the number of processed messages would not
# have changed at all. And you can hand in settings that cannot overflow, with the reason.

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
orders, changed = same["queues"]["orders"], other["queues"]["orders"]["predicted"]
faster = changed["throughput"] - orders["predicted"]["throughput"]
assert changed["max_depth"] <= 300 + 100 < orders["predicted"]["max_depth"]
predictions.compare(
    share=round(100 * orders["recorded"]["share_on"]),
    what_if=changed["flowStoppedCount"],
    throughput="the same" if abs(faster) < 1 else "more" if faster > 0 else "fewer",
)

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - The depth alone says little. Look at the **available** messages, at `flowStopped`, and at
#   `flowStoppedCount` twice. *(DQ-01, CM-15)*
# - The broker reports nothing about flow control. Set an **alert** below the stop threshold. *(QT-11 to
#   QT-14)*
# - **The broker's own log** has each ON and OFF from level info on, and not at the default level. *(FC-14)*
# - A **client log** is enough to replay, to explain, and to predict.
# - A longer queue does not make a slow consumer faster; it makes messages older.
#
# ## Where next
#
# - Why it was built this way: [10 · How it was designed](10-how-it-was-designed.ipynb).
# - In code: `qflow/trace/` (logs, replay, explain), `qflow/prediction/`, `qflow/design/`.
# - In a terminal: `qflow trace`, `qflow predict`, `qflow design`.

# %% [markdown] id="exercises"
# ## Exercises
#
# [Exercises 12 · Design tasks](../exercises/12-design-tasks.ipynb), 30 minutes: choose a stop threshold,
# capacities, and both thresholds of a queue with bursts, so that nothing is ever refused; the engine tries
# your choice. The first one reads a broker's log. The next chapter is [13 · A whole fleet](13-spark.ipynb).
