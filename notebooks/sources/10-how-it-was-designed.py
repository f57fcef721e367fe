# %% [markdown] id="title"
# # 10 · How it was designed
#
# *35 minutes. Chapters 1, 3 and 4 first. Run the cells from top to bottom with Shift+Enter.*
#
# **A question to begin with.** It is autumn 2010. When a queue is full, the broker throws its producers out.
# You may change the broker, and a little of the client, but not the protocol. Where do you let messages wait?

# %% [markdown] id="predict-text"
# ## Predict before you run
#
# One producer in bursts, one slower consumer, 600 messages. The queue has a limit of 80, a stop threshold of
# 50, a resume threshold of 30; the producer's capacity is 20.

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("10-how-it-was-designed")
predictions.ask()

# %% [markdown] id="lab-text"
# ## Five designs, one clock
#
# The workload of the prediction on five brokers: the one that shipped, the one before the feature, two
# proposals, and the Java broker. Give the producer a larger capacity, and see which designs change and which
# do not.

# %% id="lab"
qf.history_lab().play()

# %% [markdown] id="objectives"
# At the end of this chapter you can
#
# - tell the story of QPID-2935, from the complaint to the release, with the rejected designs;
# - compare five designs on one workload by four questions;
# - name the cost of each design, and the reasons for the one that shipped.

# %% [markdown] id="naive-text"
# ## The naive way: before the feature
#
# The ticket begins with a complaint. When a queue is full, the broker "will forcibly disconnect any client
# that attempts to route a message to that queue. This is an abrupt failure". The engine can still do it: the
# queue climbs to its limit of 80, the producer's session ends, and the consumer empties the queue.

# %% id="naive"
designs = qf.history_run()
assert designs["before the feature"].run.errors["p1"].code == 506
qf.depth_chart(designs["before the feature"])

# %% [markdown] id="idea-text"
# ## The idea: a completion is a promise one may postpone
#
# The first comment on the ticket has it already. The protocol has no command that slows a producer down;
# but the broker is allowed to complete a transfer *later*, and clients limit their incomplete transfers. It
# already did so for a disk: *asynchronous enqueueing* ([chapter 17](17-more-about-completions.ipynb)). Now
# there would be a second reason: "Do not complete a message transfer until all destination queues have a
# reasonable amount of capacity available."
#
# Everything that follows is about three details: **when** to hold back, **what** to hold back, and **where**
# the messages are in the meantime.

# %% [markdown] id="poc-text"
# ### First try: an overflow list
#
# The proof of concept put a list beside each producer's session. A message that does not fit is not refused
# but put on the list; every later message of that session goes to its tail, to keep the order; a timer
# tries the head of the list again and again.

# %% id="poc"
broker = qf.Broker(qf.BrokerOptions(flow_control="overflow-list"))
producer = broker.session("producer")
producer.queue_declare("full", {"qpid.max_count": 2})
producer.queue_declare("empty")
diary = qf.Diary(
    "the overflow list",
    on_full=lambda: broker.queue("full").statistics().msgDepth,
    on_empty=lambda: broker.queue("empty").statistics().msgDepth,
    on_the_list=lambda: len(producer.overflow.waiting),
)
for queue, number in (("full", 4), ("empty", 3)):
    qf.send(producer, queue, number)
    diary.note(f"{number} sent to {queue}")
qf.Reader(broker, "consumer", "full").take(2)
diary.note("2 taken from full")
broker.advance(100_000)
diary.note("a tenth of a second later")
diary

# %% id="poc-check" jupyter={"source_hidden": true}
# The limit is kept, the empty queue waits behind the full one, and nothing moves until the timer ticks.
assert [diary.column(name) for name in ("on_full", "on_empty", "on_the_list")] == [
    [2, 2, 0, 2],
    [0, 0, 0, 3],
    [2, 5, 5, 0],
]
qf.send(producer, "full", 3)
overflow = producer.overflow
producer.close()
# When the session ends, the list goes with it: no tick brings its messages.
assert not overflow.waiting
qf.Reader(broker, "later", "full").take(2)
broker.advance(300_000)
assert broker.queue("full").statistics().msgDepth == 0

# %% [markdown] id="poc-then"
# Its advantages: the limit of the queue is never exceeded, and no threshold has to be chosen. Its costs,
# all in the table: messages for an **empty** queue wait behind those for a full one; a consumer that
# empties the queue finds nothing until the timer ticks; and the list is memory that no limit counts. When
# the session ends, the list goes with it.

# %% [markdown] id="watermark-text"
# ### Second try: watermarks
#
# The written proposal leaves the messages on the queue. Each queue has a high and a low watermark and is
# *blocking* or *normal*. After a message has been put on all its queues it is marked as blocked, **once**, if
# one of them is blocking.
#
# What shipped is almost that. Two things differ: the threshold is *above* instead of *at*; and the proposal
# looks at all queues of a message together, while in the shipped design each queue holds, and releases,
# independently. Follow one message on two queues, A and B, both ON. It is consumed from A, which stays ON;
# then B turns OFF.


# %% id="watermark"
def two_queues(flow_control):
    """Return whether the third of three messages is complete, after each of three events."""
    broker = qf.Broker(qf.BrokerOptions(flow_control=flow_control))
    admin = broker.session("admin")
    for queue, resume in (("A", 1), ("B", 2)):
        admin.queue_declare(queue, {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": resume})
        admin.exchange_bind(queue, "amq.fanout")
    (*_, last) = qf.send(broker.session("producer"), "", 3, exchange="amq.fanout")
    of_a, of_b = (qf.Reader(broker, f"reader of {queue}", queue, prefetch=3) for queue in "AB")
    yield last.is_complete
    of_a.accept(of_a.got[2])
    yield last.is_complete
    of_b.accept(*of_b.got[:2])
    yield last.is_complete


events = ("sent; A and B are ON", "consumed from A, which stays ON", "B turns OFF, the message still on it")
rows = zip(events, two_queues("watermark"), two_queues("shipped"), strict=True)
qf.Table(rows, ("the third message", "complete: watermarks", "complete: shipped"), "on two queues")

# %% id="watermark-check" jupyter={"source_hidden": true}
rows = list(zip(two_queues("watermark"), two_queues("shipped"), strict=True))
# The proposal holds it, as B is normal but A is not; in the shipped design, B releases it on its own.
assert rows == [(False, False), (False, False), (False, True)]


def held_of(flow_control, sent):
    """Return how many of the messages sent are held, and the transfer of the last."""
    broker = qf.Broker(qf.BrokerOptions(flow_control=flow_control))
    producer = broker.session("producer")
    producer.queue_declare("q", {"qpid.flow_stop_count": 3, "qpid.flow_resume_count": 1})
    qf.send(producer, "q", sent)
    return broker, producer


# The proposal's threshold is *at*, what shipped is *above*.
assert [len(held_of(design, 3)[1].held) for design in ("watermark", "shipped")] == [1, 0]
# Both may be in bytes as well.
for unit, mark in (("count", 3), ("size", 3 * 26)):
    marked = qf.Broker(qf.BrokerOptions(flow_control="watermark"))
    by_unit = marked.session("producer")
    by_unit.queue_declare("q", {f"qpid.flow_stop_{unit}": mark, f"qpid.flow_resume_{unit}": mark // 3})
    depths = []
    for _ in range(4):
        qf.send(by_unit, "q", size=26)
        depths.append(len(by_unit.held))
    assert depths == [0, 0, 1, 2]
# A message that was consumed from all its queues is free, though its queue is blocking still.
broker, producer = held_of("watermark", 5)
reader = qf.Reader(broker, "reader", "q", prefetch=5)
reader.accept(reader.got[4])
assert broker.queue("q").flow_limit.stopped and len(producer.held) == 2

# %% [markdown] id="watermark-then"
# In the last row there is no reason to wait any more: the message has left A, and B has room. The
# proposal's rule, *all destinations normal, or consumed everywhere*, misses this case, because it asks its
# two questions of all queues together.

# %% [markdown] id="java-text"
# ### The neighbour: the Java broker
#
# While this was discussed, a reader pointed to the Java broker, which had flow control already. It does not
# withhold anything. It **sends the channel a command to stop**, when the channel has sent to a queue that
# is too full. That message is still taken; so each channel overshoots by one message, whatever its window.
# But it stops the *whole* channel, counts bytes only, and needs a protocol with such a command.

# %% id="java"
broker = qf.Broker(qf.BrokerOptions(flow_control="java"))
session = broker.session("producer")
session.queue_declare("q", {"qpid.flow_stop_size": 1000, "qpid.flow_resume_size": 600})
said = [""]
session.completions.on_channel_flow = lambda is_active: said.append("go on" if is_active else "stop")
depth = broker.queue("q").statistics
diary = qf.Diary(
    "capacity 1,000 bytes, resume capacity 600",
    bytes=lambda: depth().byteDepth,
    channel=lambda: said[-1],
    held=lambda: len(session.held),
)
for number in (9, 1, 1):
    qf.send(session, "q", number)
    diary.note(f"{number} sent")
qf.Reader(broker, "reader", "q").take(5)
diary.note("5 taken")
diary

# %% id="java-check" jupyter={"source_hidden": true}
# It says stop and holds nothing; it accepts the message that was too much; then it says resume.
assert (said, session.held) == (["", "stop", "go on"], []) and depth().msgDepth == 6

# %% [markdown] id="compare-designs-text"
# ## One workload, five designs
#
# Now all five on the workload of the prediction. The same producer, the same bursts, the same consumer; only
# the design differs.


# %% id="compare-designs"
def facts(picture):
    frames = picture.frames
    waited = sum(to - start for start, to in frames.spans("producer.p1.blocked"))
    depth = max(frames.column("queue.orders.depth"))
    return frames.at(-1)["producer.p1.sent"], depth, f"{100 * waited / picture.run.time_base:.0f} %"


found = {name: facts(picture) for name, picture in designs.pictures.items()}
larger = qf.history_run(capacity=30).pictures
rows = [(name, *row, facts(larger[name])[1]) for name, row in found.items()]
assert found["shipped in 0.10"][1] == 50 + 20 and found["proof of concept"][1] == 80
head = ("design", "sent", "deepest", "producer waited", "deepest, capacity 30")
qf.Table(rows, head, "600 messages, limit 80, stop 50, resume 30, capacity 20")

# %% [markdown] id="four-text"
# Four questions tell the designs apart:
#
# | | where does a message wait? | what does the producer notice? | who has to wait? | overshoot |
# |---|---|---|---|---|
# | before | nowhere | its session ends | no one | none |
# | proof of concept | in a list beside the session | no completion | the whole session | none |
# | watermarks | on the queue | no completion | each sender to it | the capacities |
# | shipped | on the queue | no completion | each sender to it | the capacities |
# | Java broker | on the queue | an explicit *stop* | the whole channel | one message a channel |

# %% id="chart-shipped"
qf.depth_chart(designs["shipped in 0.10"])

# %% id="chart-poc"
qf.depth_chart(designs["proof of concept"])

# %% [markdown] id="chart-words"
# The first picture is what shipped: the queue overshoots its stop threshold of 50 by the producer's window,
# and the hatched bands are long. The second is the proof of concept: the queue is filled to its limit of 80
# and no
# band is drawn, because the queue itself knows nothing of it.

# %% [markdown] id="surprise-text"
# ## The surprise: the cluster question
#
# One comment of the ticket is about something else: brokers could run as a **cluster**, all doing the same
# commands in the same order, so that each has the same state. A timer ticks at different moments on different
# machines: then they would not have the same state any more, and "crash sporadically". That alone rules out
# the overflow list. What shipped has no timer; all is caused by messages coming and going.
#
# And a broker that *joins* must receive the state. For flow control that was 36 bytes and a list of held
# messages. Whether the queue is ON was not part of it. The newcomer concluded: ON, if something is held.
# That is mostly right.


# %% id="surprise"
def after_joining(*consumed):
    """Return how a queue is, what is sent of it, and how it is at a newcomer; 5 sent, some consumed."""
    original, newcomer = qf.Broker(), qf.Broker()
    producer = original.session("producer")
    producer.queue_declare("q", {"qpid.flow_stop_count": 3, "qpid.flow_resume_count": 1})
    transfers = dict(enumerate(qf.send(producer, "q", "m1 m2 m3 m4 m5"), 1))
    reader = qf.Reader(original, "reader", "q", prefetch=5)
    for label in consumed:
        reader.accept(label)
    state = qf.broker.replicate(original.queue("q").flow_limit)
    newcomer.session("producer").queue_declare("q", {})
    qf.broker.join(newcomer.queue("q").flow_limit, state, transfers)
    stopped = [broker.queue("q").flow_limit.stopped for broker in (original, newcomer)]
    return (" and ".join(consumed) or "nothing", stopped[0], state.pending_msg_seqs, stopped[1])


rows = [after_joining(), after_joining("m1", "m2"), after_joining("m4", "m5")]
head = ("consumed before", "ON at the original", "held positions sent", "ON at the newcomer")
qf.Table(rows, head, "stop 3, resume 1, five messages sent; then a broker joins")

# %% id="surprise-check" jupyter={"source_hidden": true}
# The newcomer is wrong exactly where all that was held has been consumed.
assert [(original, newcomer) for _, original, _, newcomer in rows] == [
    (True, True),
    (True, True),
    (True, False),
]

# %% [markdown] id="surprise-then"
# In the last row exactly the held messages have been consumed. The queue is still ON, with nothing held, and
# the two brokers of one cluster disagree from then on. Flow control was therefore switched off
# in clusters at first, and switched on two months later. In 2012 the cluster itself was removed.
#
# A general lesson: *a value that is computed from other state, and not sent, will one day be computed
# wrongly*.

# %% [markdown] id="order-text"
# ### And the completions
#
# One more thing had to change before any of this could work. Completions used to be reported strictly in
# order; one held transfer would have held all later ones, to whatever queue (chapter 3). The last piece of
# the feature was to let them complete in any order.


# %% [markdown] id="real-text"
# ## What the real broker did
#
# Only what shipped can be recorded today. The scenario below is the mixed case of the second try: a message
# held by two queues, consumed from one of them, still held by the other.

# %% id="real"
qf.beside("fc-fanout-both-hold", q1="queues.q1.flow", q2="queues.q2.flow", held="held.p")

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
deepest = {name: depth for name, (_, depth, _) in found.items() if name != "before the feature"}
winner = max(deepest, key=deepest.get)
names = {"shipped in 0.10": "shipped", "watermark proposal": "watermarks"}
answers = {"deepest": names.get(winner, winner), "java": deepest["Java broker"] - 50}
predictions.compare(before=found["before the feature"][0], **answers)

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - The idea: **postpone the completion**, which the protocol allows, and rely on the client's window.
# - An overflow list keeps the limit, at the price of delay, hidden memory and blocked sessions. *(ALT-06)*
# - Watermarks are what shipped, except for *at* and *above*, and for who decides. *(ALT-07, ALT-08)*
# - The Java broker says *stop* and overshoots by one message for each channel. *(ALT-12)*
# - No timers: behaviour caused by messages alone is the same everywhere. *(CM-16)*
#
# ## Where next
#
# - Which of the documents' sentences survived: [11 · Errata](11-errata.ipynb).
# - In code: `qflow/broker/history.py`, each alternative a few dozen lines on the same engine.

# %% [markdown] id="exercises"
# ## Exercises
#
# [Exercises 10 · How it was designed](../exercises/10-design-history.ipynb), 30 minutes: what four designs do
# with one workload, which messages wait on an overflow list, how far the Java broker overshoots, and what a
# broker that joins a cluster gets wrong. The next chapter is [11 · Errata](11-errata.ipynb).
