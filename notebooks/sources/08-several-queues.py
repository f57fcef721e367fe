# %% [markdown] id="title"
# # 8 · Several queues: fan-out, one slow subscriber, one session each
#
# *25 minutes. Chapters 1 and 3 first. Run the cells from top to bottom with Shift+Enter.*
#
# **A question to begin with.** Three services subscribe to the same stream of prices. Two are idle half of
# the time, one is slow today. Suddenly all three fall behind, the idle ones too. Their queues have room.
# Why do they get no more?

# %% [markdown] id="predict-text"
# ## Predict before you run
#
# An exchange of type fanout sends each message to two queues. `f1` stops above 1 message, `f2` above 2.

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("08-several-queues")
predictions.ask()

# %% [markdown] id="lab-text"
# ## Watch the slow one
#
# One producer, three queues, three consumers, one of them slow. Make the slow consumer faster until the
# producer does not have to wait any more. Then try a larger capacity: how much does that help, and
# for how long?

# %% id="lab"
qf.fanout_lab().play()

# %% id="lab-words"
print("the slow consumer needs 12 ms:", *qf.fanout_run().claims[:3], sep="\n- ")
print("\nit needs 5 ms:", qf.fanout_run(slow=0.005).claims[0], sep="\n- ")

# %% [markdown] id="objectives"
# At the end of this chapter you can
#
# - say when a message that goes to several queues is complete;
# - predict the effect of one slow subscriber on all others, and on the producer;
# - say why a producer that is stopped by one queue cannot send to another one, and how to change that.

# %% [markdown] id="naive-text"
# ## The naive way: every queue has its own flow control, so they cannot disturb each other
#
# Every queue does have its own state, ON or OFF. But the **completion** that they hold is one and the same.
# A transfer counts the queues that it still waits for, and is complete at zero.

# %% id="naive"
broker = qf.Broker()
admin = broker.session("admin")
for queue, stop in (("f1", 1), ("f2", 2)):
    admin.queue_declare(queue, {"qpid.flow_stop_count": stop})
    admin.exchange_bind(queue, "amq.fanout")

first, second, third = qf.send(broker.session("producer"), "", 3, exchange="amq.fanout")
diary = qf.Diary("held by", second=lambda: second.held_by, third=lambda: third.held_by)
diary.note("3 messages sent")
holders = len(third.held_by)
for queue in ("f1", "f2"):
    broker.management.purge(queue)
    diary.note(f"{queue} is emptied")
diary

# %% id="naive-check" jupyter={"source_hidden": true}
# Each queue holds for itself: what both held is complete only when both have released it.
assert holders == 2 and second.is_complete and third.is_complete
(*_, waits) = qf.send(broker.sessions["producer"], "", 3, exchange="amq.fanout")
broker.management.purge("f1")
assert not waits.is_complete and waits.held_by == ("f2",)
broker.management.purge("f2")
assert waits.is_complete

# %% [markdown] id="naive-then"
# The second message was held by `f1` alone, the third by both. Emptying `f1` completes the second; the third
# waits for `f2`.

# %% [markdown] id="mechanism-text"
# ## The mechanism: the slowest one sets the pace
#
# A producer with a window of 60 sends to three queues. As long as the slowest queue holds completions, they
# fill the window, and nothing is sent to **any** queue. So the other two queues are empty. Here is a run of
# 20 seconds: the consumers need 1, 3 and 5 milliseconds for each message, the producer would like to send
# 250 a second.

# %% id="mechanism"
one_slow = qf.Workload.load(
    qf.kit_path("data") / "recordings" / "workloads" / "fanout-one-slow.json"
).replace(duration=20)
picture = qf.picture_of(qf.simulate(one_slow))


def rates(picture, begin=8, end=20):
    """Messages a second of p1 that each consumer accepted, once the slow queue was full."""
    gone = [event for event in picture.run.events if event.kind == "dequeued" and event.message[:2] == "p1"]
    times = {queue: [e.time for e in gone if e.queue == queue] for queue in one_slow.queues}
    return {q: sum(begin <= t / 1e6 < end for t in found) / (end - begin) for q, found in times.items()}


found = rates(picture)
rows = [
    (queue, able, round(found[queue])) for queue, able in (("fast", 1000), ("medium", 333), ("slow", 200))
]
assert max(found.values()) < 1.05 * found["slow"] < 220
qf.Table(rows, ("queue", "its consumer could do", "it got"), "messages a second, from second 8 to 20")

# %% [markdown] id="chart-text"
# The depth of the slow queue, and below it the depth of the medium one. Where the slow queue is ON, the
# producer waits, and the medium queue is empty. *Each time the slow one turns OFF, a flood goes to all
# three.*

# %% id="chart-slow"
qf.depth_chart(picture, "slow")

# %% id="chart-medium"
qf.depth_chart(picture, "medium")

# %% [markdown] id="cure-text"
# ### What can be done
#
# Nothing inside flow control: it keeps its promise, *no subscriber loses a message*. If a subscriber may
# lose some, say so where its queue is declared: a **ring** drops the oldest messages and never holds a
# producer.

# %% id="cure"
with_ring = qf.picture_of(qf.simulate(one_slow.with_queue("slow", {"qpid.policy_type": "ring"})))
events = with_ring.run.events
dropped = {e.message for e in events if e.kind == "dequeued" and e.detail["reason"] == "ring"}
delivered = {e.message for e in events if e.kind == "delivered" and e.queue == "slow"}
print(f"fast: {rates(with_ring)['fast']:.0f} a second instead of {found['fast']:.0f}")
print(f"slow: {len(dropped)} messages dropped, {len(dropped & delivered)} of them at the consumer already")
assert dropped & delivered and rates(with_ring)["fast"] > 1.2 * found["fast"]

# %% [markdown] id="cure-then"
# A ring drops the *oldest* messages, and the oldest are those that the consumer has been given and not yet
# accepted. It continues to work on them; its accept is ignored. *(LP-10, LP-11)* More in chapter 9.

# %% [markdown] id="session-text"
# ## The surprise: a queue without a slow reader
#
# Now a producer that sends to **two** queues, each message to one of them: `busy` is stopped, `idle` has
# plenty of room. Both transfers go over one session, from one window. *(ALT-09, CM-06)*


# %% id="session"
def two_destinations(names, capacity=3):
    broker = qf.Broker()
    admin = broker.session("admin")
    admin.queue_declare("busy", {"qpid.flow_stop_count": 2})
    admin.queue_declare("idle")
    sessions = {queue: broker.sessions.get(name) or broker.session(name) for queue, name in names.items()}
    for _ in range(10):  # ten for each queue, as far as the window allows
        for queue, session in sessions.items():
            if len(session.held) < capacity:
                qf.send(session, queue)
    return [broker.queue(queue).statistics().msgDepth for queue in names]


rows = [("one session for both", *two_destinations({"busy": "one", "idle": "one"}))]
rows += [("one session for each", *two_destinations({"busy": "one", "idle": "another"}))]
assert [on_idle for *_, on_idle in rows] == [4, 10]
qf.Table(rows, ("the producer uses", "on busy", "on idle"), "ten messages were meant for each queue")

# %% [markdown] id="session-then"
# With one session the producer stops after four messages to `idle`, with a queue in front of it that
# would take all ten. The proposal of 2010 lists this as a known issue: "A pending transfer of a message to a
# different - possibly unblocked - destination would be blocked by the current outstanding messages."
#
# **One session for each destination** is the solution: each has its own window and its own sync.

# %% [markdown] id="clients-text"
# Two senders of a real client library on one session have windows of their own, and still one can stop the
# other. The C++ client asks for a sync of the whole session when a window is full. The Python client counts
# completions only up to the first gap. Either way the sender to `idle` waits for the transfers that `busy`
# holds. *(CM-14, CAP-09)*


# %% id="clients"
def sent_to_idle(window, session):
    """Let two senders send as fast as they can for a twentieth of a second."""
    shared = {"rate": 20_000, "capacity": 5, "size": 100, "window": window, "session": session}
    producers = tuple(qf.Producer(q, ("", q), seed=n, **shared) for n, q in enumerate(("busy", "idle"), 1))
    queues = {"busy": {"qpid.flow_stop_count": 10}, "idle": {}}
    events = qf.simulate(qf.Workload("two senders", 0.05, queues, producers=producers)).events
    return sum(event.kind == "enqueued" and event.queue == "idle" for event in events)


rows = [(w, sent_to_idle(w, "shared"), sent_to_idle(w, "")) for w in ("qpid-cpp", "qpid-python")]
assert all(10 * shared < own for _, shared, own in rows)
head = ("client", "both senders on one session", "a session each")
qf.Table(rows, head, "messages to the queue idle, of about 1,000 that were due")

# %% [markdown] id="real-text"
# ## What the real broker did
#
# Fan-out to three queues, two of which stop. `p-4` to `p-6` are held. When `q1` turns OFF (step 10), `p-4`
# completes: only `q1` held it. `p-5` was held by `q2` as well, and waits until its copy has left `q2`.

# %% id="real"
columns = {"q1": "queues.q1.flow", "q2": "queues.q2.flow", "held": "held.p", "complete": "done.p"}
qf.beside("fc-fanout-two-stopped", range(7, 13), **columns)

# %% [markdown] id="real-two-text"
# And the window of 3 shared by two queues: in step 4 not one message goes to the empty queue `q2`.

# %% id="real-two"
columns = {"q1": "queues.q1.depth", "q2": "queues.q2.depth", "held": "held.p"}
qf.beside("cap-two-queues", range(3, 10), **columns)

# %% [markdown] id="clients-real-text"
# And in time: the workload of this chapter with real clients and a real broker. The engine got the
# recorded sends and accepts; the dotted line is the real broker's report on its queue `slow`.

# %% id="clients-real"
real = qf.recorded_picture("fanout-one-slow")
qf.depth_chart(real, "slow")

# %% id="clients-real-words"
print(*(claim for claim in real.claims if claim.startswith("The real")), sep="\n")

# %% [markdown] id="clients-real-then"
# One thing the simulation did not show: the real queue `fast` turned ON a few times as well. Each time
# `slow` releases its transfers, a flood goes to all three queues, and a consumer that is busy
# elsewhere for some milliseconds is enough.

# %% [markdown] id="answer-text"
# ## Back to the question
#
# Because the producer waits, and it waits for the slowest. The idle services do not fall behind: there is
# nothing on their queues. The remedy is not more capacity. It is a decision: may the slow service lose
# messages (a ring), may it have a longer queue (it will be full as well, later), or shall all wait for it?

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
after_purge = "no" if diary.column("third")[1] else "yes"
predictions.compare(holders=holders, after_purge=after_purge, rate=round(found["slow"]))

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - A transfer to several queues is complete when **every** queue that held it has released it. *(CM-03)*
# - With fan-out the **slowest** subscriber sets the pace for all.
# - One session, one window: a stopped destination blocks the others too. Use **one session for each
#   destination**. *(CM-06, CAP-09, ALT-09)*
# - A subscriber that may lose messages gets a **ring**: it never holds a producer. *(FC-03, LP-10)*
#
# ## Where next
#
# - In code: `qflow/broker/message.py`, how a transfer counts its holders.

# %% [markdown] id="exercises"
# ## Exercises
#
# [Exercises 8 · Several queues](../exercises/08-several-queues.ipynb), 20 minutes: the time of a sync's
# answer, the effect of one slow subscriber on the others, and the sessions that a program needs for several
# queues. The next chapter is [9 · Other queues](09-other-queues.ipynb).
