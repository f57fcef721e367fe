# %% [markdown] id="title"
# # 3 · Held completions: what the producer sees
#
# *25 minutes. Chapter 1 first. Run the cells from top to bottom with Shift+Enter.*
#
# **A question to begin with.** A program sends an order, waits five seconds, gets a time-out, and sends the
# order again, as its author thought was right. The customer gets two parcels. Who made the mistake?

# %% [markdown] id="predict-text"
# ## Predict before you run
#
# A producer sends five transfers, numbered 0 to 4. Number 1 goes to a queue whose flow control turns ON with
# it; the others go where there is room.

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("03-held-completions")
predictions.ask("complete", "after")

# %% [markdown] id="lab-text"
# ## Watch what is held
#
# The commands of one session, in their order. `busy` stops above two messages, `idle` never does. The picture
# pauses to ask you something. When it has played, **click message 4 on busy**: a consumer takes it. Which
# numbers become complete, and what does the client hear of it? Then send more, and ask with a sync.

# %% id="lab" jupyter={"source_hidden": true}
predictions.ask("sync", lab=qf.completion_lab())

# %% [markdown] id="objectives"
# At the end of this chapter you can
#
# - say what exactly is missing when a completion is held, and what is not;
# - read a set of completed commands that has a hole in it;
# - predict what a `sync` waits for, and why one stopped queue can keep a whole session waiting;
# - list everything that lets a held transfer go.

# %% [markdown] id="naive-text"
# ## The naive way: no answer means it did not arrive
#
# Here is the program of the question. It uses the client API `qpid.messaging`; this one runs on a broker
# inside the notebook, and its time-outs pass at once. The queue `orders` has a stop threshold of 2.

# %% id="naive"
connection = qf.messaging.Connection.establish("naive.example")
session = connection.session()
sender = session.sender(
    "orders; {create: always, node: {x-declare: {arguments: {'qpid.flow_stop_count': 2}}}}"
)

outcomes = []
for order in ("a book", "a lamp", "a chair", "a chair"):  # the second chair is the repeated attempt
    try:
        sender.send(order, timeout=5)
        outcomes.append(f"{order}: sent")
    except qf.messaging.Timeout as problem:
        outcomes.append(f"{order}: {problem}")

print(*outcomes, sep="\n")

assert outcomes[:2] == ["a book: sent", "a lamp: sent"]
assert all(outcome.startswith("a chair: sender sync timed out") for outcome in outcomes[2:])

# %% [markdown] id="naive-look"
# Two orders sent, two attempts that timed out. And what is on the queue?

# %% id="naive-queue"
receiver = connection.session().receiver("orders; {mode: browse}")
on_queue = [receiver.fetch(timeout=0).content for _ in range(4)]
print(on_queue)

assert on_queue == ["a book", "a lamp", "a chair", "a chair"]

# %% [markdown] id="naive-then"
# Both chairs are there. The time-out did not say *the message did not arrive*. It said *I have not heard
# that it is complete*. Those are different sentences, and this chapter is about the difference.

# %% [markdown] id="mechanism-text"
# ## The mechanism: numbered commands, and a set of those that are complete
#
# On a session every command gets a number: 0, 1, 2 … The broker answers with a **completion**: I have
# processed this command. What it sends is not a list in order but a **set**, written as ranges. A later
# transfer can be complete while an earlier one is not.
#
# We let another session declare two queues, so that the producer's own numbers start at its first transfer.
# `busy` has a stop threshold of 1, `idle` has none.

# %% id="mechanism"
broker = qf.Broker()
admin = broker.session("admin")
admin.queue_declare("busy", {"qpid.flow_stop_count": 1})
admin.queue_declare("idle")

producer = broker.session("producer")
qf.send(producer, "busy", "busy-0")
qf.send(producer, "busy", "busy-1")
qf.send(producer, "idle", "idle-2 idle-3 idle-4")

print("complete:", producer.completed)
print("held:    ", [(transfer.number, transfer.label) for transfer in producer.held])

complete = len(producer.completed)
assert complete == 4
assert [transfer.number for transfer in producer.held] == [1]
assert 1 not in producer.completed and 2 in producer.completed

# %% [markdown] id="hole-text"
# The set has a **hole** at 1. Before flow control was built, the broker reported completions strictly in
# order, and transfers 2 to 4 would have waited behind 1. The engine can still do that.

# %% id="hole"
old = qf.Broker(qf.BrokerOptions(completions="in-order"))
old_admin = old.session("admin")
old_admin.queue_declare("busy", {"qpid.flow_stop_count": 1})
old_admin.queue_declare("idle")
old_producer = old.session("producer")
for queue in ("busy", "busy", "idle", "idle", "idle"):
    qf.send(old_producer, queue)

print("any order:", producer.completed)
print("in order: ", old_producer.completed)

assert len(old_producer.completed) == 1

# %% [markdown] id="told-text"
# ### Complete, and reported as complete
#
# The broker does not send a completion for each transfer; that would double the traffic. It reports when it
# is asked to: by a flag on the transfer, by `session.flush`, or by `execution.sync`. *(CM-05)*

# %% id="told"
reports = []
producer.completions.on_report = lambda completed: reports.append(str(completed))

print("reports so far:     ", reports)
producer.session_flush()
print("after session.flush:", reports)

assert reports == [str(producer.completed)]

# %% [markdown] id="visible-text"
# ### What is not held: the message
#
# The held message is on its queue like any other. A browser sees it, a consumer can take it. The queue
# counts it. Only the producer's answer is missing.

# %% id="visible"
browser = qf.Reader(broker, "browser", "busy", prefetch=10, browse=True)
print("on the queue busy:", browser.got)

assert browser.got == ["busy-0", "busy-1"]
assert broker.queue("busy").statistics().msgDepth == 2

# %% [markdown] id="sync-text"
# ## A sync waits for everything before it
#
# A producer that wants to be sure sends `execution.sync`: tell me when all my earlier commands are complete.
# One held transfer is enough to leave it unanswered. It does not matter that the other transfers went to a
# queue with plenty of room. The sync looks at the **session**, not at a queue. *(CM-06)*

# %% id="sync"
sync_number = producer.completions.next_number
producer.execution_sync()
answered = sync_number in producer.completed

qf.send(producer, "idle", "idle-6")  # commands after a waiting sync go on

print("sync answered:", answered)
print("complete:     ", producer.completed)

assert not answered
assert sync_number + 1 in producer.completed

# %% [markdown] id="hol-text"
# This is **head-of-line blocking**: what goes to `idle` waits for what went to `busy`. The designers knew
# it. "This appears to be unavoidable given the 0.10 model", says the proposal of 2010, as its second known
# issue. Chapter 8 measures what it costs, and shows the cure: one session for each destination.

# %% [markdown] id="both-text"
# ### One session for both directions
#
# A client reads the set only up to its first hole. *(CM-14)* So behind a held transfer it misses **every**
# answer on that session, not only the one to a sync: the answers that `session.receiver(...)` needs, the end
# of a `fetch` that finds nothing, the confirmation of `acknowledge` and of `close`. *(CAP-12)*
#
# A program with one session for sending and receiving can stop itself for ever: the consumer that would make
# room cannot be made. With a broker on the network the line with `session.receiver` never returns; here it
# says why.

# %% id="both"
connection = qf.messaging.Connection.establish("both.example")
session = connection.session()
sender = session.sender(
    "jobs; {create: always, node: {x-declare: {arguments: {'qpid.flow_stop_count': 1}}}}", capacity=2
)
for job in ("job 1", "job 2"):
    sender.send(job, sync=False)

try:
    session.receiver("jobs")
    own = "made"
except qf.messaging.SyncWouldBlock as problem:
    own = str(problem)

receiver = connection.session().receiver("jobs")
taken = [receiver.fetch(timeout=1).content for _ in range(2)]
receiver.session.acknowledge()
sender.sync(timeout=1)

print("on the producer's session:", own)
print("on a session of its own:  ", taken, "and the producer has", sender.unsettled(), "unsettled")

assert "held by queue 'jobs'" in own
assert taken == ["job 1", "job 2"] and sender.unsettled() == 0

# %% [markdown] id="both-then"
# So: **one session for sending, another for receiving**, wherever a queue can stop.

# %% [markdown] id="release-text"
# ## What lets a held transfer go
#
# There are two ways, and the first one is easily forgotten.
#
# 1. **The message itself leaves the queue**, while the queue stays ON. Then only its own transfer is let go.
# 2. **The queue turns OFF.** Then all are let go at once.
#
# Let us see both. The queue stops above 4 and resumes below 2; the producer sends 7.

# %% id="release"
broker_two = qf.Broker()
sender_two = broker_two.session("producer")
sender_two.queue_declare("orders", {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2})
consumer = qf.Reader(broker_two, "consumer", "orders", prefetch=10)
qf.send(sender_two, "orders", " ".join(f"m{number}" for number in range(1, 8)))

diary = qf.Diary(
    "one by one, then all at once",
    messages=lambda: broker_two.queue("orders").statistics().msgDepth,
    state=lambda: "ON" if broker_two.queue("orders").statistics().flowStopped else "OFF",
    held=lambda: [transfer.label for transfer in sender_two.held],
)
diary.note("7 sent")
for label in ("m1", "m6", "m2", "m3", "m4", "m5"):
    consumer.accept(label)
    diary.note(f"{label} accepted")

held = dict(zip(diary.column("messages"), diary.column("held"), strict=True))
assert held == {
    7: ["m5", "m6", "m7"],
    6: ["m5", "m6", "m7"],  # m1 was not held: nothing is let go
    5: ["m5", "m7"],  # m6 was: it goes alone, the queue is still ON
    4: ["m5", "m7"],
    3: ["m5", "m7"],
    2: ["m5", "m7"],  # 2 is not below 2
    1: [],
}
diary

# %% [markdown] id="release-then"
# Any way of leaving the queue counts: being accepted, rejected, purged, expired, moved by management, or
# lost with the queue. The next cell tries them on a producer that is held. *(FC-20, FC-21)*


# %% id="ways"
def held_after(action):
    broker = qf.Broker()
    producer = broker.session("producer")
    producer.queue_declare("orders", {"qpid.flow_stop_count": 1})
    producer.queue_declare("elsewhere")
    qf.send(producer, "orders", 3)
    before = len(producer.held)
    action(broker)
    return before, len(producer.held)


ways = {
    "a browser looks": lambda broker: qf.Reader(broker, "b", "orders", prefetch=9, browse=True),
    "a consumer acquires, and does not accept": lambda broker: qf.Reader(broker, "c", "orders", prefetch=9),
    "a consumer accepts all": lambda broker: qf.Reader(broker, "c", "orders", prefetch=9).accept(),
    "a consumer rejects all": lambda broker: qf.Reader(broker, "c", "orders", prefetch=9).reject(),
    "a consumer releases all": lambda broker: qf.Reader(broker, "c", "orders", prefetch=9).release(),
    "the queue is purged": lambda broker: broker.management.purge("orders"),
    "its messages are moved": lambda broker: broker.management.queueMoveMessages("orders", "elsewhere"),
    "the queue is deleted": lambda broker: broker.management.delete("queue", "orders"),
}
found = {way: held_after(action) for way, action in ways.items()}


assert [after for _, after in found.values()] == [2, 2, 0, 0, 2, 0, 0, 0]
qf.Table(
    ((way, before, after) for way, (before, after) in found.items()),
    ("what happens", "held before", "held after"),
    "looking, acquiring and releasing change nothing; leaving the queue does",
)

# %% [markdown] id="held-chart-text"
# ### Over time
#
# The run of chapter 1, seen from the producer: how many of its completions are held. The line climbs while
# the queue is ON, stops growing when the producer's window of 100 is full, and falls to 0 at once.

# %% id="held-chart"
picture = qf.flow_run()
most = max(picture.frames.column("producer.p1.held"))
print(f"at most {most} completions were held at once")

assert most == 100
qf.held_chart(picture)

# %% [markdown] id="surprise-text"
# ## The surprise: a transaction is never held
#
# Inside a transaction a transfer is only noted down, and completes at once. The messages reach the queue at
# the commit, all together; they can turn flow control ON, but then it is too late to hold anybody. A
# producer that works in transactions is not throttled by flow control at all. *(CM-10)*

# %% id="surprise"
broker_three = qf.Broker()
careful = broker_three.session("careful")
careful.queue_declare("orders", {"qpid.flow_stop_count": 5})
careful.tx_select()
qf.send(careful, "orders", 10)
before_commit = broker_three.queue("orders").statistics().msgDepth
careful.tx_commit()
after_commit = broker_three.queue("orders").statistics()

plain = broker_three.session("plain")
qf.send(plain, "orders")

print(f"before the commit: {before_commit} messages")
print(
    f"after the commit:  {after_commit.msgDepth} messages, ON: {after_commit.flowStopped}, "
    f"held of the transaction: {len(careful.held)}"
)
print(f"the next plain transfer of another session is held: {len(plain.held) == 1}")

assert before_commit == 0
assert after_commit.msgDepth == 10 and after_commit.flowStopped
assert careful.held == [] and len(plain.held) == 1

# %% [markdown] id="real-text"
# ## What the real broker did
#
# A recorded scenario, played on the engine beside it. The queue stops above 2 and resumes below 1. Look at
# three things: the sync of step 6 waits behind `p-3` and `p-4`; in step 7 a message to a place where no
# queue is completes at once, although earlier transfers are held; and in steps 10 and 11 the held messages
# are consumed one by one, the queue stays ON, and the syncs are answered nevertheless.

# %% id="real"
recorded = qf.beside(
    "fc-sync", range(3, 13), messages="queues.q.depth", ON="queues.q.flow", complete="done.p", held="held.p"
)

assert recorded.agrees
recorded

# %% [markdown] id="answer-text"
# ## Back to the question
#
# No part of the system made a mistake: the program took silence for a no. A program that must not send twice
# either waits (flow control is *supposed* to make it wait), or gives each message an identifier by which a
# consumer can tell a repetition. With `sync=False` and a capacity, the same client goes on sending until
# its window is full, and never times out on a single message.

# %% id="answer"
connection = qf.messaging.Connection.establish("patient.example")
sender = connection.session().sender(
    "orders; {create: always, node: {x-declare: {arguments: {'qpid.flow_stop_count': 2}}}}"
)
sender.capacity = 10
for order in ("a book", "a lamp", "a chair"):
    sender.send(order, sync=False)

print("not yet known to be complete:", sender.unsettled(), "of at most", sender.capacity)

assert sender.unsettled() >= 1
assert qf.messaging.brokers.get("patient.example").queue("orders").statistics().msgDepth == 3

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
taker = qf.Reader(broker, "taker", "busy", prefetch=2)
taker.accept("busy-1")
after = len([number for number in range(5) if number in producer.completed])

assert broker.queue("busy").statistics().flowStopped
assert after == 5 and sync_number in producer.completed  # and the sync is answered now
predictions.compare(complete=complete, sync="yes" if answered else "no", after=after)

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - A held transfer has arrived; only its **completion** is missing. No answer does not mean no. *(CM-01)*
# - Completions form a **set** with holes; a later transfer may complete before an earlier one. *(CM-04)*
# - A **sync** waits for every earlier command of its session, whatever queue it went to. *(CM-06)*
# - A client misses every answer behind a held transfer of its session: **one session for each direction**.
#   *(CAP-12)*
# - A transfer is let go when its message leaves the queue, or when the queue turns OFF. *(FC-17)*
# - Transfers in a transaction are never held. *(CM-10)*
#
# ## Links on
#
# - Next: [4 · Capacity](04-capacity.ipynb), how many held transfers a producer can pile up.
# - What one slow queue does to the others: [8 · Several queues](08-several-queues.ipynb).
# - In code: `qflow/broker/completions.py` and `qflow/broker/transfer.py`, the broker's `AsyncCompletion`.

# %% [markdown] id="exercises"
# ## Exercises
#
# [Exercises 3 · Held completions](../exercises/03-held-completions.ipynb), 25 minutes: which transfers of a
# session are complete, what two stopped queues do to one message, and when a held transfer completes. The
# next chapter is [4 · Capacity](04-capacity.ipynb).
