# %% [markdown] id="title"
# # 17 · More about completions: a slow disk, transactions, a lost sync
#
# *20 minutes. Chapter 3 first. Run the cells from top to bottom with Shift+Enter.*
#
# **A question to begin with.** Ten messages were sent, ten were consumed, and the queue is empty. The
# producer calls `sync` to be sure, and waits for ever. What is it waiting for?

# %% [markdown] id="predict-text"
# ## Predict before you run
#
# A queue stops above 1. A client with a capacity of 10 sends ten messages with `sync=False`. Two consumers
# take five each; the second acknowledges its five, then the first. All ten have left the queue.

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("17-more-about-completions")
predictions.ask("returns", "written")

# %% [markdown] id="objectives"
# At the end of this chapter you can
#
# - name what else withholds a completion, and say what has to happen before a durable transfer completes;
# - say why a producer that works in transactions is never throttled;
# - end a batch so that its `sync` returns.

# %% [markdown] id="store-text"
# ## The older reason to wait: asynchronous enqueueing
#
# Flow control did not invent the late completion. A **durable** message has to survive a crash of the broker,
# so it is written to disk, and a disk takes time. The broker does not wait for it: it puts the message on its
# queues at once, and completes the transfer when the last of them has it *written*. That delay between
# arriving and being safely enqueued is **asynchronous enqueueing**. The first comment on QPID-2935 starts
# from it: if a transfer may complete late because of a disk, it may as well complete late because a queue
# is nearly full. *(CM-12)*
#
# The engine keeps nothing on disk. It keeps the delay: a `DelayedStore` has written a message when you say
# `finish`. Three durable messages go to a queue that stops above 2:

# %% id="store"
store = qf.broker.DelayedStore()
broker = qf.Broker(store=store)
producer = broker.session("producer")
broker.session("admin").queue_declare("orders", {"qpid.flow_stop_count": 2}, durable=True)
for order in ("m-1", "m-2", "m-3"):
    producer.message_transfer(qf.Message(100, "orders", durable=True, label=order))

diary = qf.Diary(
    "a durable queue, stop 2",
    on_queue=lambda: broker.queue("orders").statistics().msgDepth,
    being_written=lambda: store.pending,
    complete=lambda: str(producer.completed) or "none",
)
diary.note("three sent")
at_first = len(producer.completed)
store.finish("m-2")
diary.note("m-2 is written")
store.finish("m-1")
diary.note("m-1 is written")
store.finish("m-3")
diary.note("m-3 is written")
still_held = [transfer.label for transfer in producer.held]
broker.sessions["admin"].queue_purge("orders")
diary.note("the queue is purged: OFF")

diary

# %% id="store-check" jupyter={"source_hidden": true}
# The broker does not wait for the disk: all three are on the queue, and none is complete.
assert diary.column("on_queue")[0] == 3 and len(diary.column("being_written")[0]) == 3
# A transfer completes when it is written, in any order …
assert diary.column("complete")[:3] == ["none", "1", "0-1"]
# … but for the third one, which has a second reason to wait: flow control.
assert diary.column("complete")[3:] == ["0-1", "0-2"] and still_held == ["m-3"]

# %% [markdown] id="store-then"
# The transfers are numbered 0 to 2. The disk was done with `m-2` first, so the set had a hole. `m-3` had
# **two** reasons to wait, the disk and the stopped queue, and a transfer completes when the last reason is
# gone. A message that is not durable, or a broker without a store, does not wait for a disk at all.
#
# A client that waits for its sync tells the broker to hurry: a sync flushes pending writes, if
# the store can do that.

# %% id="store-sync"
prompt = qf.Broker(store=qf.broker.DelayedStore(flushes_on_sync=True)).session("producer")
prompt.queue_declare("orders", durable=True)
order = prompt.message_transfer(qf.Message(100, "orders", durable=True))
before = order.is_complete
prompt.execution_sync()
print("complete before the sync:", before, " after it:", order.is_complete)

# %% id="store-sync-check" jupyter={"source_hidden": true}
assert (before, order.is_complete) == (False, True)
# Without the durable flag, no completion waits for the store.
plain = prompt.message_transfer(qf.Message(100, "orders"))
assert plain.is_complete

# %% [markdown] id="transaction-text"
# ## A transaction is never held
#
# Inside a transaction a transfer is only noted, and completes at once. The messages reach the queue at the
# commit, all together. They can turn flow control ON, but by then there is no transfer left to hold. Flow
# control does not throttle a producer that works in transactions. *(CM-10)*

# %% id="transaction"
broker_three = qf.Broker()
careful, plain = broker_three.session("careful"), broker_three.session("plain")
careful.queue_declare("orders", {"qpid.flow_stop_count": 5})
careful.tx_select()
qf.send(careful, "orders", 10)
print("before the commit:", broker_three.queue("orders").statistics().msgDepth, "messages")
careful.tx_commit()
after_commit = broker_three.queue("orders").statistics()
qf.send(plain, "orders")
print(f"after it: {after_commit.msgDepth}, ON: {after_commit.flowStopped}, held: {len(careful.held)}")
print("the next plain transfer of another session is held:", len(plain.held) == 1)

# %% id="transaction-check" jupyter={"source_hidden": true}
assert after_commit.flowStopped and not careful.held and plain.held

# %% [markdown] id="lost-text"
# ## The surprise: a sync that never returns
#
# The client of the question, step by step. The naive expectation: everything is complete, so nothing is
# unsettled, and `sync` returns at once.

# %% id="lost"
queue = "orders; {create: always, node: {x-declare: {arguments: {'qpid.flow_stop_count': 1}}}}"
connection = qf.messaging.Connection.establish("lost.example")
sender = connection.session().sender(queue, capacity=10)
for number in range(10):
    sender.send(f"order {number}", sync=False)
first, second = (connection.session().receiver("orders") for _ in range(2))
for consumer in (first, second):
    for _ in range(5):
        consumer.fetch(timeout=1)
for consumer in (second, first):
    consumer.session.acknowledge()

depth = qf.messaging.brokers.get("lost.example").queue("orders").statistics().msgDepth
unsettled, returns = sender.unsettled(), "yes"
print(f"on the queue: {depth}, unsettled: {unsettled}")
try:
    sender.sync()
except qf.messaging.SyncWouldBlock as problem:
    returns = "no"
    print(problem)
sender.send("one more", sync=True)
print("after one more, with sync=True:", sender.unsettled())

# %% id="lost-check" jupyter={"source_hidden": true}
assert (depth, unsettled, returns, sender.unsettled()) == (0, 9, "no", 0)

# %% [markdown] id="lost-then"
# *Complete* is one thing, *reported as complete* another. This client asks for reports only once half of its
# window is used: with its last five messages. Those five were released first, and the broker reported
# them, as it had been asked to. When the first five completed, no request for a report was left. The
# client reads the set up to its first hole, so it counts nine as unsettled, and a call that only *waits*
# waits for ever. The real client on the real broker does the same, with the same numbers. *(CM-05,
# CM-14)*
#
# **The cure**: let the last message of a batch ask, with `send(..., sync=True)`. The report that includes
# it includes everything that is complete. In a program with several threads the waiting call cannot know
# that its answer is lost; here it warns after a second.
#
# Here is the same in the lab of chapter 3, with four messages; only the last one asks. Look at the two bars:
# *complete* is whole, *reported* has a hole that nothing closes. Then press `execution.sync`.

# %% id="lost-lab" jupyter={"source_hidden": true}
moves = [*[("busy",)] * 3, ("busy", "sync"), *(("take", f"p1-{number}") for number in (3, 0, 1, 2))]
qf.completion_lab(moves=moves, stop=1)

# %% [markdown] id="real-text"
# ## What the real broker did
#
# A transaction, recorded on a real broker and played beside the model. Look at the commit: the queue turns
# ON, and nothing is held.

# %% id="real"
recorded = qf.beside("fc-tx-publish", depth="queues.q.depth", ON="queues.q.flow", held="held.p")

recorded

# %% id="real-check" jupyter={"source_hidden": true}
assert recorded.agrees

# %% [markdown] id="answer-text"
# ## Back to the question
#
# It is waiting for a report that it never requested. All ten are complete; the client has heard of five of
# them, behind a hole. One message with `sync=True` at the end of the batch, and the call returns.

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
predictions.compare(returns=returns, written=at_first)

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - A durable transfer completes when it is **written** and no stopped queue holds it: **asynchronous
#   enqueueing**. Its message is on the queue all the time. *(CM-12)*
# - Transfers in a transaction are never held. *(CM-10)*
# - The broker reports completions only on request: end a batch with `sync=True`. *(CM-05, CM-14)*
#
# ## Where next
#
# - Back to the main road: [4 · Capacity](04-capacity.ipynb).
# - How a late completion became flow control: [10 · How it was designed](10-how-it-was-designed.ipynb).
# - In code: `qflow/broker/store.py`, `qflow/broker/transactions.py`, `qflow/broker/completions.py`.

# %% [markdown] id="exercises"
# ## Exercises
#
# The last task of [Exercises 3 · Held completions](../exercises/03-held-completions.ipynb), *Written, and not
# held*, is about the slow disk.
