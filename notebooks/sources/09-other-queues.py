# %% [markdown] id="title"
# # 9 · Other queues: ring, last value, priority, self-destruct
#
# *30 minutes. Chapters 1 and 5 first. Run the cells from top to bottom with Shift+Enter.*
#
# **A question to begin with.** A ring queue keeps the latest 100 prices. A consumer takes one, calculates
# for a second, accepts it. The accept is answered without an error. Had the price still been on the queue?

# %% [markdown] id="predict-text"
# ## Predict before you run

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("09-other-queues")
predictions.ask()

# %% [markdown] id="lab-text"
# ## Five queues, the same messages
#
# A limit of 20, no flow control, and a consumer that is too slow. Move the limit and the rate. Which of the
# five shows first that the consumer is too slow? Which of them never report it to a client? All five are
# drawn to one scale, so the queue that is drawn higher is the deeper one.

# %% id="lab"
qf.policy_lab().play()

# %% [markdown] id="objectives"
# At the end of this chapter you can
#
# - describe each kind of queue when it is full, and name the client that notices;
# - predict the messages that are left on it;
# - say which kinds can be combined, with each other, with flow control and with groups, and what surprises
#   there are when they are.

# %% [markdown] id="naive-text"
# ## The naive way: a full queue is a full queue
#
# The default policy is *reject*: the message is refused and its session ends. But there are four
# other kinds, and no two behave alike. The lab puts the same 150 messages into each of them.

# %% [markdown] id="naive-chart-text"
# Two of the five as pictures. The ring stays at its limit of 20 and drops the oldest messages; the last
# value queue never gets there, because it keeps one message for each of six keys.

# %% id="naive-ring"
kinds = qf.policy_run()
qf.depth_chart(kinds["ring"])

# %% id="naive-lvq"
qf.depth_chart(kinds["last value"])

# %% [markdown] id="ring-text"
# ## Ring: the oldest goes
#
# `qpid.policy_type=ring`. A ring makes room for each new message by dropping the oldest. It does not ask
# whether a consumer is working on it.


# %% id="ring"
def on_queue(broker):
    """Return the labels of all messages that no consumer holds, in the order a browser sees them."""
    browser = qf.Reader(broker, f"browser {len(broker.sessions)}", "q", prefetch=100, browse=True)
    browser.close()
    return browser.got


def queue_with(labels, header="", **arguments):
    broker = qf.Broker()
    producer = broker.session("producer")
    producer.queue_declare("q", {f"qpid.{key}": value for key, value in arguments.items()})
    qf.send(producer, "q", labels, header=header)
    return broker, producer


broker, producer = queue_with("a b c", policy_type="ring", max_count=3)
worker = qf.Reader(broker, "worker", "q", prefetch=1)
diary = qf.Diary("a ring of 3", worker_holds=lambda: worker.holds, available=lambda: on_queue(broker))
diary.note("a, b and c sent")
qf.send(producer, "q", "d")
diary.note("d sent")
worker.accept("a")
diary.note("the worker accepts a")
diary

# %% id="ring-check" jupyter={"source_hidden": true}
# The oldest went, though the worker held it; its accept changes nothing, and the queue is never ON.
ring = broker.queue("q").statistics()
assert (ring.msgDepth, ring.discardsRing, ring.flowStoppedCount) == (3, 1, 0)
full, sender = queue_with("a b c d e", policy_type="ring", max_count=3, flow_stop_count=1)
assert not sender.held and not full.queue("q").statistics().flowStopped

# %% [markdown] id="ring-then"
# `a` left the queue when `d` came, while the worker held it. Its accept is ignored, without an error: the
# worker does not learn that its message was dropped. That is what `discardsRing` is for.
#
# A single message that is larger than the whole ring is refused with 506, even here. And rings have no flow
# control (chapter 7).

# %% [markdown] id="lvq-text"
# ## Last value: one for each key
#
# `qpid.last_value_queue_key=k`: a new message **replaces** the one with the same value in header `k`. The new
# one is at the end.

# %% id="lvq"
arguments = {"last_value_queue_key": "k", "max_count": 3, "flow_stop_count": 3}
broker, producer = queue_with("oil-1 gas-1 oil-2 tin-1", "k", **arguments)
print("on the queue:", on_queue(broker))
try:
    qf.send(producer, "q", "gas-2", header="k")
except qf.AmqpException as error:
    print("gas-2:       ", error.name)

# %% id="lvq-check" jupyter={"source_hidden": true}
# One for each key, the new one at the end; the limit is checked before the replacement.
assert on_queue(broker) == ["gas-1", "oil-2", "tin-1"] and not producer.is_attached

# %% [markdown] id="lvq-then"
# Look at the refusal. `gas-2` would have *replaced* `gas-1`, and the queue would have stayed at three. But
# the limit is checked **before** the replacement. A last value queue with a limit needs room for one more.
# *(QT-02)*
#
# For the same reason flow control and last values disturb each other: a replacement is an enqueue, which
# may turn the queue ON, and then a dequeue. At exactly the stop threshold a single update does it:

# %% id="lvq-flow"
broker, producer = queue_with("oil-1 gas-1", "k", last_value_queue_key="k", flow_stop_count=2)
diary = qf.Diary.of_queue(broker, "q", producer, caption="last values, stop threshold 2")
diary.note("two keys")
for price in ("oil-2", "oil-3"):
    qf.send(producer, "q", price, header="k")
    diary.note(f"{price} comes")
assert diary.column("flow control") == ["OFF", "ON", "ON"] and diary.column("messages") == [2, 2, 2]
diary

# %% [markdown] id="priority-text"
# ## Priority: the highest first
#
# `qpid.priorities=10` gives ten levels. Consumers, and browsers too, see the highest level first, and within
# a level the oldest. With a ring, the **lowest** level loses first; and a new message that is lower than
# everything there is dropped itself.

# %% id="priority"
broker, producer = queue_with("", priorities=10, max_count=2, policy_type="ring")
diary = qf.Diary("a priority ring of 2", on_queue=lambda: on_queue(broker))
for label, priority in (("a", 9), ("b", 8), ("c", 5), ("d", 8), ("e", 9)):
    qf.send(producer, "q", label, priority=priority)
    diary.note(f"{label}, priority {priority}")
diary

# %% id="priority-check" jupyter={"source_hidden": true}
assert on_queue(broker) == ["a", "e"]

# %% [markdown] id="priority-then"
# `c` was dropped without notice: its transfer completes like any other. `d`, of the same priority as `b`,
# replaced it. *(LP-12)*

# %% [markdown] id="destruct-text"
# ## Self-destruct: all or nothing
#
# `qpid.policy_type=self-destruct` is for subscribers that would rather start again than be late: when the
# limit is exceeded, the whole queue is deleted, with all its messages.

# %% id="destruct"
off = {"flow_stop_count": 0, "flow_stop_size": 0}
broker, producer = queue_with("a b c", policy_type="self-destruct", max_count=3, **off)
(last,) = qf.send(producer, "q", "d")
lost = 1 + broker.statistics().abandoned
print("the queue is gone:       ", "q" not in broker.queues.queues)
print("the producer's transfer: ", "complete" if last.is_complete else "held")
print("messages lost at once:   ", lost)

# %% id="destruct-check" jupyter={"source_hidden": true}
assert "q" not in broker.queues.queues and last.is_complete and lost == 4

# %% [markdown] id="destruct-then"
# The producer learns nothing; its messages are no longer routable, and the broker drops them. Note that
# we switched flow control off. Self-destruct queues **do have** it by default, and a producer with a
# small window is stopped before the limit is ever exceeded: then the queue never destroys itself.
# *(LP-16)*


# %% id="destruct-flow"
def self_destructs(capacity):
    broker, producer = queue_with("", policy_type="self-destruct", max_count=10)
    while len(producer.held) < capacity and "q" in broker.queues.queues:
        qf.send(producer, "q")
    return "q" not in broker.queues.queues


rows = [(capacity, self_destructs(capacity)) for capacity in (1, 2, 3, 4)]
assert [destroys for _, destroys in rows] == [False, False, True, True]
qf.Table(rows, ("the producer's capacity", "does the queue destroy itself?"), "limit 10, stop 8 by default")

# %% [markdown] id="combine-text"
# ## Which go together?
#
# Some pairs are refused when the queue is declared, some are accepted and one of the two is ignored. We ask
# the engine for every pair, and look at the queue's behaviour.

# %% id="combine"
FEATURES = {
    "ring": {"qpid.policy_type": "ring"},
    "self-destruct": {"qpid.policy_type": "self-destruct"},
    "last value": {"qpid.last_value_queue_key": "k"},
    "priorities": {"qpid.priorities": 5},
    "groups": {"qpid.group_header_key": "g", "qpid.shared_msg_group": 1},
    "stop at 5": {"qpid.flow_stop_count": 5, "qpid.flow_resume_count": 4},
}


def together(one, other):
    arguments = {**FEATURES[one], **FEATURES[other]}
    if len(arguments) < len(FEATURES[one]) + len(FEATURES[other]):
        return "·"  # one setting cannot have two values
    broker = qf.Broker()
    try:
        broker.session("p").queue_declare("q", {"qpid.max_count": 10, **arguments})
    except qf.AmqpException:
        return "refused"
    qf.send(broker.sessions["p"], "q", "x-1 x-1 x-1", header="k")
    queue = broker.queue("q")
    ignored = {"last value": queue.statistics().msgDepth > 1, "stop at 5": queue.flow_limit is None}
    return next((f"no {what}" for what in (one, other) if ignored.get(what)), "yes")


matrix = [(one, *(together(one, other) for other in FEATURES)) for one in FEATURES]
assert together("ring", "groups") == "yes" and together("groups", "last value") == "refused"
qf.Table(matrix, ("with", *FEATURES), "do they go together?")

# %% [markdown] id="surprise-text"
# ## The surprise: a ring breaks the promise of groups
#
# Ring and groups are accepted together. A group keeps its order as long as its owner holds one of its
# messages. But a ring removes messages that an owner holds. When it has removed the last one, the group is
# free, while the owner is still at work, and the next message goes to another consumer. *(MG-20)*

# %% id="surprise"
groups = {"group_header_key": "g", "shared_msg_group": 1}
broker, shop = queue_with("A-1 A-2", "g", **groups, max_count=2, policy_type="ring")
first, second = qf.Reader(broker, "first", "q"), qf.Reader(broker, "second", "q")
first.fetch()
qf.send(shop, "q", "A-3", header="g")
print("first works on", first.holds, "and second gets", second.fetch())
assert (first.holds, second.holds) == (["A-1"], ["A-2"])

# %% [markdown] id="real-text"
# ## What the real broker did
#
# Both were recorded. First the priority ring, where new messages of low priority are dropped (`p-3`, `p-7`,
# `p-8`; the counter rises, the depth stays):

# %% id="real"
columns = {"depth": "queues.q.depth", "dropped": "queues.q.ring", "got": "got.c/s"}
qf.beside("ri-priority-drop-new", range(2, 11), **columns)

# %% [markdown] id="real-two-text"
# Then the ring with groups. In step 9 `A-1` is dropped while `c` works on it; in step 12 `A-2` as well, and
# group A is gone. In step 14 it comes back, free.

# %% id="real-two"
columns = {"c": "got.c/s", "d": "got.d/s", "groups": "groups.q", "dropped": "queues.q.ring"}
qf.beside("gr-ring-acquired", range(7, 16), **columns)

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
predictions.compare(ring="a", priority="c", self_destruct=lost)

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - **Reject** ends the producer's session; **ring** drops the oldest, acquired or not; **self-destruct**
#   deletes the queue; **last value** replaces; a **priority** ring drops the lowest. *(LP-05, LP-10, LP-12,
#   LP-15, QT-01)*
# - Limits are checked before a replacement. *(QT-02, LP-13)*
# - Self-destruct has flow control, a ring never has. *(LP-16, FC-03)*
# - A ring can remove a message that a consumer holds, and with it the order of a group. *(LP-11, MG-20)*
#
# ## Where next
#
# - In code: `qflow/broker/limits.py` (policies) and `qflow/broker/stores.py` (kinds of queue).

# %% [markdown] id="exercises"
# ## Exercises
#
# [Exercises 9 · Other queues, and what removes messages](../exercises/09-other-queues.ipynb), 50 minutes:
# what remains on a ring, on a last-value queue and on a queue that destroys itself, and what purge, delete,
# move and a transaction do to held transfers; choose some of them. The next chapter is [10 · How it was
# designed](10-how-it-was-designed.ipynb).
