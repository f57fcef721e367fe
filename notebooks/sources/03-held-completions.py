# %% [markdown] id="title"
# # 3 · Held completions: what the producer sees
#
# *25 minutes. Chapter 1 first. Run the cells from top to bottom with Shift+Enter.*
#
# **A question to begin with.** A program sends an order, waits five seconds, gets a time-out, and sends
# the order again, as it was written to do. The customer gets two parcels. Who made the mistake?

# %% [markdown] id="predict-text"
# ## Predict before you run
#
# A **transfer** is the command that sends one message. A producer sends five, numbered 0 to 4. Numbers 0 and
# 1 go to the queue `busy`, and number 1 turns its flow control ON. Numbers 2 to 4 go to `idle`, a queue with
# room.

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("03-held-completions")
predictions.ask("complete", "after")

# %% [markdown] id="lab-text"
# ## Watch what is held
#
# These are the commands of one session, in order. `busy` stops above two messages, `idle` never does. The
# picture pauses to ask you something. When it has played, **click message 4 on busy**: a consumer takes
# it. Which numbers become complete, and which of them does the broker report to the client? Then send
# more, and ask with a sync.

# %% id="lab" jupyter={"source_hidden": true}
predictions.ask("sync", lab=qf.completion_lab())

# %% [markdown] id="objectives"
# At the end of this chapter you can
#
# - say what exactly is missing when a completion is held, and what is not;
# - read a set of completed commands that has a hole in it;
# - predict what a `sync` waits for, and why one stopped queue can keep a whole session waiting;
# - list everything that releases a held transfer.

# %% [markdown] id="naive-text"
# ## The naive way: no answer means it did not arrive
#
# Here is that program. It uses the client API `qpid.messaging`, here on a broker inside the notebook, where
# a time-out takes no real time. The queue `orders` has a stop threshold of 2.

# %% id="naive"
connection = qf.messaging.Connection.establish("naive.example")
queue = "orders; {create: always, node: {x-declare: {arguments: {'qpid.flow_stop_count': 2}}}}"
sender = connection.session().sender(queue)

outcomes = []
for order in ("a book", "a lamp", "a chair", "a chair"):  # the second chair is the repeated attempt
    try:
        sender.send(order, timeout=5)
        outcomes.append(f"{order}: sent")
    except qf.messaging.Timeout as problem:
        outcomes.append(f"{order}: {problem}")
receiver = connection.session().receiver("orders; {mode: browse}")
on_queue = [receiver.fetch(timeout=0).content for _ in range(4)]
print(*outcomes, f"on the queue: {on_queue}", sep="\n")

# %% id="naive-check" jupyter={"source_hidden": true}
assert [": sent" in outcome for outcome in outcomes] == [True, True, False, False]
assert on_queue == ["a book", "a lamp", "a chair", "a chair"]

# %% [markdown] id="naive-then"
# Both chairs are there. The time-out did not say *the message did not arrive*. It said *I have not heard
# that it is complete*. The two are not the same, and this chapter is about the difference.

# %% [markdown] id="mechanism-text"
# ## The mechanism: numbered commands, and a set of those that are complete
#
# On a session every command gets a number: 0, 1, 2 … The broker answers with a **completion**: I have
# processed this command. Its answer is not an ordered list but a **set**, written as ranges. A later
# transfer can be complete while an earlier one is not.
#
# Here are the five transfers of your prediction. `busy` has a stop threshold of 1, `idle` has none. Before
# flow control was built, the broker reported completions strictly in order; the engine can still do that.


# %% id="mechanism"
def five_transfers(options=None):
    broker = qf.Broker(options)
    admin = broker.session("admin")
    admin.queue_declare("busy", {"qpid.flow_stop_count": 1})
    admin.queue_declare("idle")
    producer = broker.session("producer")
    qf.send(producer, "busy", "busy-0 busy-1")
    qf.send(producer, "idle", "idle-2 idle-3 idle-4")
    return broker, producer


broker, producer = five_transfers()
old = five_transfers(qf.BrokerOptions(completions="in-order"))[1]
complete = len(producer.completed)
print("complete:", producer.completed, " held:", producer.held[0].label, " in order:", old.completed)

# %% id="mechanism-check" jupyter={"source_hidden": true}
assert (complete, len(old.completed)) == (4, 1)

# %% [markdown] id="told-text"
# The set has a **hole** at 1. In order, transfers 2 to 4 would have waited behind it.
#
# ### Complete, and reported as complete
#
# The broker does not send a completion for each transfer; that would double the traffic. It reports on
# request: by a flag on the transfer, by `session.flush`, or by `execution.sync`. *(CM-05)* The lab above has
# a bar for each: *complete* grows by itself, *reported* only when you press one of the buttons.

# %% id="told-check" jupyter={"source_hidden": true}
# Completions that are released together are one report, as a set.
reporting = qf.Broker()
asking = reporting.session("producer")
asking.queue_declare("orders", {"qpid.flow_stop_count": 1})
qf.send(asking, "orders", 3)
asking.execution_sync()
reports = []
asking.completions.on_report = lambda completed: reports.append(str(completed))
reporting.session("admin").queue_purge("orders")
assert reports == ["0-4"]

# %% [markdown] id="visible-text"
# ### What is not held: the message
#
# The held message is on its queue like any other, as you saw in the lab. A **browser**, a reader that looks
# at messages without taking them, sees it; a consumer can take it; the queue counts it. Only the producer's
# answer is missing.

# %% [markdown] id="sync-text"
# ## A sync waits for everything before it
#
# A producer that wants to be sure sends `execution.sync`: tell me when all my earlier commands are
# complete. A single held transfer leaves it unanswered, even if all the others went to a queue with plenty
# of room. The sync looks at the **session**, not at a queue.
# *(CM-06)*

# %% id="sync"
sync_number = producer.completions.next_number
producer.execution_sync()
answered = sync_number in producer.completed
qf.send(producer, "idle", "idle-6")  # commands after a waiting sync go on
print("sync answered:", answered, " complete:", producer.completed)

# %% id="sync-check" jupyter={"source_hidden": true}
assert not answered

# %% [markdown] id="hol-text"
# This is **head-of-line blocking**: transfers to `idle` wait for earlier ones to `busy`. The designers knew
# it. "This appears to be unavoidable given the 0.10 model", says the proposal of 2010, as its second known
# issue. Chapter 8 measures what it costs, and shows the cure: one session for each destination.

# %% [markdown] id="both-text"
# ### One session for both directions
#
# A client reads the set only up to its first hole. *(CM-14)* So while a transfer is held, the client sees
# **no** later answer on that session: not the answer to a sync, not the one that `session.receiver(...)`
# waits for, not the one that says a `fetch` found nothing, and no confirmation of `acknowledge` or
# `close`. *(CAP-12)*
#
# A program with one session for sending and receiving can block itself for ever: the consumer that would
# make room cannot be created. With a broker on the network the line with `session.receiver` never
# returns; here it says why.

# %% id="both"
connection = qf.messaging.Connection.establish("both.example")
session = connection.session()
sender = session.sender(queue.replace("2", "1"), capacity=2)
for job in ("job 1", "job 2"):
    sender.send(job, sync=False)
try:
    session.receiver("orders")
except qf.messaging.SyncWouldBlock as problem:
    print("on the producer's session:", problem)
receiver = connection.session().receiver("orders")
taken = [receiver.fetch(timeout=1).content for _ in range(2)]
receiver.session.acknowledge()
print("on a session of its own:  ", taken, "and the producer has", sender.unsettled(), "unsettled")

# %% id="both-check" jupyter={"source_hidden": true}
assert sender.unsettled() == 0

# %% [markdown] id="both-then"
# So: **one session for sending, another for receiving**, wherever a queue can stop.

# %% [markdown] id="release-text"
# ## What releases a held transfer
#
# There are two ways, and the first is easily forgotten.
#
# 1. **The message itself leaves the queue**, while the queue stays ON. Then only its own completion is
#    released.
# 2. **The queue turns OFF.** Then all held completions are released at once.
#
# The next cell shows both: five messages go to `busy`, and three of them are held. A consumer takes one
# that was not held, then one that was; then the queue is purged.

# %% id="release"
moves = [*[("busy",)] * 5, ("take", "p1-0"), ("take", "p1-3"), ("purge", "busy")]
captions = [said for _, said in qf.completion_run(moves=moves).drawing["captions"][5:]]
print(*captions, sep="\n")
assert ["after all" in said for said in captions] == [False, False, False, True, True]

# %% [markdown] id="release-then"
# Any way of leaving the queue counts: being accepted, rejected, purged, expired, moved by management, or
# lost with the queue. The next cell tries them on a producer that is held. *(FC-20, FC-21)*


# %% id="ways"
def held_after(action):
    broker = qf.Broker()
    producer = broker.session("producer")
    producer.queue_declare("orders", {"qpid.flow_stop_count": 1})
    qf.send(producer, "orders", 3)
    action(broker, qf.Reader(broker, "c", "orders", prefetch=9))
    return len(producer.held)


ways = {
    "a consumer acquires all, and does not accept": lambda broker, consumer: None,
    "it accepts all": lambda broker, consumer: consumer.accept(),
    "it rejects all": lambda broker, consumer: consumer.reject(),
    "it releases all": lambda broker, consumer: consumer.release(),
    "the queue is deleted": lambda broker, consumer: broker.management.delete("queue", "orders"),
}
found = {way: held_after(action) for way, action in ways.items()}

qf.Table(found.items(), ("what happens", "held, of 2"), "leaving the queue is what counts")

# %% id="ways-check" jupyter={"source_hidden": true}
assert list(found.values()) == [2, 0, 0, 2, 0]

# %% id="order-check" jupyter={"source_hidden": true}
# All held completions are released at once, in the order in which their messages arrived.
four = qf.Broker()
trace_of_release = qf.record(four)
sender_of_four = four.session("producer")
sender_of_four.queue_declare("orders", {"qpid.flow_stop_count": 3, "qpid.flow_resume_count": 3})
qf.send(sender_of_four, "orders", "m-1 m-2 m-3 m-4 m-5 m-6")
taker = qf.Reader(four, "consumer", "orders", prefetch=9)
taker.accept("m-1", "m-2", "m-3", "m-4")
rows_of_release = zip(trace_of_release.kind, trace_of_release.message, strict=True)
assert [name for kind, name in rows_of_release if kind == "let_go"] == ["m-4", "m-5", "m-6"]

# %% [markdown] id="held-chart-text"
# ### Over time
#
# The run of chapter 1, seen by the producer: how many of its completions are held. The line climbs while
# the queue is ON, levels off when the producer's window of 100 is full, and then drops straight to 0.

# %% id="held-chart"
qf.held_chart(qf.flow_run())

# %% [markdown] id="real-text"
# ## What the real broker did
#
# A recorded scenario, played on the engine beside it. The queue stops above 2 and resumes below 1. Look at
# three things: the sync of step 6 waits behind `p-3` and `p-4`; in step 7 a message that no queue receives
# completes at once, although earlier transfers are held; and in steps 10 and 11 the held messages are
# consumed one by one, the queue stays ON, and the syncs are answered nevertheless.

# %% id="real"
recorded = qf.beside(
    "fc-sync", range(3, 13), messages="queues.q.depth", ON="queues.q.flow", complete="done.p", held="held.p"
)

recorded

# %% id="real-check" jupyter={"source_hidden": true}
assert recorded.agrees

# %% [markdown] id="answer-text"
# ## Back to the question
#
# Nothing in the system failed: the program took a missing answer for a refusal. A program that must not send
# twice either waits (flow control is *supposed* to make it wait), or gives each message an identifier by
# which a consumer recognises a repetition. With `sync=False` and a capacity, the same client keeps sending
# until its window is full, and never times out on a single message.

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
qf.Reader(broker, "taker", "busy", prefetch=2).accept("busy-1")
after = len([number for number in range(5) if number in producer.completed])

assert broker.queue("busy").statistics().flowStopped and sync_number in producer.completed
predictions.compare(complete=complete, sync="yes" if answered else "no", after=after)

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - A held transfer has arrived; only its **completion** is missing. A missing answer is not a refusal.
#   *(CM-01)*
# - Completions form a **set** with holes; a later transfer may complete before an earlier one. *(CM-04)*
# - A **sync** waits for every earlier command of its session, whatever queue it went to. *(CM-06)*
# - A client misses every answer behind a held transfer of its session: **one session for each direction**.
#   *(CAP-12)*
# - A held completion is released when its message leaves the queue, or when the queue turns OFF.
#   *(FC-17)*
# - The broker reports completions on request. *(CM-05)*
#
# ## Where next
#
# - Next: [4 · Capacity](04-capacity.ipynb), how many held transfers a producer can have.
# - Three more things about completions, a slow disk, transactions and a sync that never returns:
#   [17 · More about completions](17-more-about-completions.ipynb).
# - What one slow queue does to the others: [8 · Several queues](08-several-queues.ipynb).
# - In code: `qflow/broker/completions.py` and `qflow/broker/message.py`, the broker's `AsyncCompletion`.

# %% [markdown] id="exercises"
# ## Exercises
#
# [Exercises 3 · Held completions](../exercises/03-held-completions.ipynb), 30 minutes: which transfers of a
# session are complete, what two stopped queues do to one message, and when a held transfer completes. The
# next chapter is [4 · Capacity](04-capacity.ipynb).
