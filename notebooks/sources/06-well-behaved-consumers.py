# %% [markdown] id="title"
# # 6 · Well-behaved consumers
#
# *25 minutes. Chapter 5 first. Run the cells from top to bottom with Shift+Enter.*
#
# **A question to begin with.** The queue has groups, the consumers are correct, and still a customer's
# *cancel* was processed before the *order*. The log shows: one consumer got both, released the first, and
# accepted the second. Which line of its code is wrong?

# %% [markdown] id="predict-text"
# ## Predict before you run
#
# Consumer `c1` holds `A-1` and `A-2` of group A; `A-3` is behind them.

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("06-well-behaved-consumers")
predictions.ask()

# %% [markdown] id="lab-text"
# ## Be the consumers
#
# One group, three messages, two consumers. `c1` has fetched two, `c2` asks for one and waits. Click `A-1` at
# `c1` and release it, then accept `A-2`: the group is free. Which message does `c2` get, and when? If nothing
# moves, *send one more* (group `A`).

# %% id="lab"
qf.group_lab(messages="AAA", prefetch=(2, 1), paces=(), mode="credit").play()

# %% [markdown] id="objectives"
# At the end of this chapter you can
#
# - say what accept, release and reject each promise, and choose the right one;
# - show how a consumer breaks the order of a group although the broker enforces it;
# - recognise a message that waits although a consumer is idle, and say what wakes the consumer.

# %% [markdown] id="naive-text"
# ## The naive way: accept first, work later
#
# *Accept* means: I take responsibility, you may forget it. Some programs accept as soon as a message arrives,
# to get it off the queue. Then they crash.

# %% id="naive"
GROUPS = {"qpid.group_header_key": "G", "qpid.shared_msg_group": 1}


def queue_with(labels, options=None):
    broker = qf.Broker(options)
    trace = qf.record(broker)
    shop = broker.session("shop")
    shop.queue_declare("q", GROUPS)
    qf.send(shop, "q", labels, header="G")
    return broker, trace


broker, _ = queue_with("A-1 A-2")
first = qf.Reader(broker, "first", "q", prefetch=2)
first.accept("A-1")  # on arrival
first.close()  # it crashes while it works on A-1
print("the second consumer gets", qf.Reader(broker, "second", "q", prefetch=2).got)

# %% id="naive-check" jupyter={"source_hidden": true}
assert broker.sessions["second"].consuming.records and broker.queue("q").message_depth == 1

# %% [markdown] id="naive-then"
# `A-1` is lost, and the group continues with `A-2` as if `A-1` had been done. (The star marks a message
# that was delivered before.) The manual asks for the other way: completely process the message, that is,
# finish "updating all state related to the message", **before** accepting it. The price is that a message
# may come twice. The star is the broker's hint.

# %% [markdown] id="three-text"
# ## The mechanism: three ways to settle a message
#
# | | means | the message |
# |---|---|---|
# | **accept** | done | leaves the queue |
# | **release** | not by me, not now | goes back to its old place, for any consumer |
# | **reject** | never again, by no consumer | leaves the queue, for the alternate exchange if there is one |
#
# Each of the three ends the ownership of the group, *if* it was the last message of the group that the
# consumer held. The second one is dangerous.

# %% [markdown] id="order-text"
# ### Releasing one and accepting the next
#
# This is the example of the manual's note "Be Advised". Follow `A-1`.

# %% id="order"
broker, _ = queue_with("A-1 A-2 A-3")
c1, c2 = qf.Reader(broker, "c1", "q"), qf.Reader(broker, "c2", "q")
c1.fetch(), c1.fetch()
diary = qf.Diary("one released, the next accepted", c1=lambda: c1.holds, c2=lambda: c2.holds)
c1.release("A-1")
after_release = c2.fetch()
diary.note("c1 releases A-1; c2 asks")
c1.accept("A-2")
after_accept = c2.fetch()
diary.note("c1 accepts A-2; c2 asks again")
diary

# %% id="order-check" jupyter={"source_hidden": true}
# It goes back to its old place, yet A-2 is done by then.
assert not after_release and after_accept == "A-1*"

# %% [markdown] id="order-then"
# `A-1` is processed after `A-2`. The broker did nothing wrong: at no time did two consumers hold messages of
# A. But it cannot know that `A-2` makes no sense before `A-1`; it only knows the holder of each message.
#
# ### What keeps the order
#
# Either release **all** messages of the group that you hold, or remove the one message for good.


# %% id="cures"
def next_ones(settle):
    broker, _ = queue_with("A-1 A-2 A-3")
    c1, c2 = qf.Reader(broker, "c1", "q"), qf.Reader(broker, "c2", "q")
    c1.fetch(), c1.fetch()
    settle(c1)
    return [c2.fetch(), c2.fetch(), c2.fetch()]


after = {
    "releases A-1, accepts A-2": next_ones(lambda c1: (c1.release("A-1"), c1.accept("A-2"))),
    "releases both": next_ones(lambda c1: c1.release()),
    "rejects A-1, accepts A-2": next_ones(lambda c1: (c1.reject("A-1"), c1.accept("A-2"))),
}
qf.Table(after.items(), ("c1 holds A-1 and A-2, and …", "c2 gets"), "only the first breaks the order")

# %% id="cures-check" jupyter={"source_hidden": true}
assert [gets[0].rstrip("*") for gets in after.values()] == ["A-1", "A-1", "A-3"]

# %% [markdown] id="reject-text"
# ### Where rejected messages go
#
# A rejected message is gone, unless the queue was declared with an **alternate exchange**. Then the broker
# sends it there, and a queue bound to it collects the messages that no consumer could use: a *dead letter
# queue*. *(CN-16)*

# %% id="reject"
broker = qf.Broker()
admin = broker.session("admin")
admin.queue_declare("work", alternate_exchange="amq.fanout")
admin.queue_declare("dead letters")
admin.exchange_bind("dead letters", "amq.fanout")
qf.send(admin, "work", "A-1 A-2")
qf.Reader(broker, "consumer", "work", prefetch=1).reject("A-1")
print("dead letters:", qf.Reader(broker, "collector", "dead letters", prefetch=5).got)

# %% id="reject-check" jupyter={"source_hidden": true}
assert broker.queue("dead letters").message_depth == 1 and broker.queue("work").message_depth == 1

# %% [markdown] id="surprise-text"
# ## The surprise: the lost wake-up
#
# Now something that no manual mentions. `c1` holds `A-1`. `c2` waits with plenty of credit; it has looked at
# the queue, found only messages of a group that is not its own, and waits. `c1` accepts `A-1` and asks for no
# more. Group A is free, and `A-2` is on the queue. Does `c2` get it? And if not: what has to happen first?


# %% id="surprise"
def c2_gets(event=lambda broker: None, options=None):
    broker, trace = queue_with("A-1 A-2", options)
    c1 = qf.Reader(broker, "c1", "q")
    c1.fetch()
    c2 = qf.Reader(broker, "c2", "q", prefetch=5)
    c1.accept("A-1")
    event(broker)
    return c2.got, trace


EVENTS = {
    "nothing": lambda broker: None,
    "a minute passes": lambda broker: broker.advance(60_000_000),
    "a message of group B arrives": lambda b: qf.send(b.session("s"), "q", "B-1", header="G"),
    "c2 fetches": lambda broker: broker.sessions["c2"].fetch("c2"),
    "c1 ends its session": lambda broker: broker.sessions["c1"].close(),
}
woken, trace = c2_gets()
rows = [(what, c2_gets(event)[0]) for what, event in EVENTS.items()]
qf.Table(rows, ("after the accept", "c2 gets"), "what wakes an idle consumer")

# %% id="surprise-check" jupyter={"source_hidden": true}
assert {what: bool(got) for what, got in rows} == {
    "nothing": False,
    "a minute passes": False,
    "a message of group B arrives": True,
    "c2 fetches": True,
    "c1 ends its session": True,
}
# A release wakes a waiting consumer, which an accept does not.
release, _ = queue_with("A-1 A-2")
holder, waits = qf.Reader(release, "holder", "q"), None
holder.fetch()
waits = qf.Reader(release, "waits", "q", prefetch=5)
assert waits.got == []
holder.release("A-1")
assert waits.got == ["A-1*", "A-2"]

# %% [markdown] id="surprise-then"
# The accept frees the group, but **wakes no consumer**. The message is on the queue, a consumer with credit
# is there, and both wait, until something quite different makes the consumer look again: a new message of
# whatever group, a *release* (releases do wake), the end of a session, or the consumer itself, with a new
# grant of credit or a fetch. On a quiet queue that may take for ever. A client that fetches one message at
# a time looks each time it fetches, so it never notices the problem. *(MG-13)*
#
# We can ask the engine for its reasons:

# %% id="explain"
print(qf.explain(trace, len(trace) - 1, "consumer:c2").text(with_sources=False))

# %% [markdown] id="eager-text"
# The engine also knows the other behaviour, in which freeing a group wakes a waiting consumer. The real
# broker never had it.

# %% id="eager"
print("with eager wake-ups c2 gets", c2_gets(options=qf.BrokerOptions(wake_up="eager"))[0])

# %% id="eager-check" jupyter={"source_hidden": true}
assert c2_gets(options=qf.BrokerOptions(wake_up="eager"))[0] == ["A-2"]

# %% [markdown] id="real-text"
# ## What the real broker did
#
# First the note of the manual, recorded: `c2` gets `A-1` after `A-2` was accepted.

# %% id="real"
qf.beside("gr-release-accept-order", range(7, 15), c1="got.c1/s", c2="got.c2/s", groups="groups.q")

# %% [markdown] id="real-two-text"
# And the lost wake-up. In step 8 `c1` accepts, and no consumer gets anything; `A-2` and `A-3` are on the
# queue, their group is free, `c2` and `c3` have credit. In step 9 one more message of A arrives, and `c2`
# gets all three.

# %% id="real-two"
shown = {"c2": "got.c2/s", "c3": "got.c3/s", "groups": "groups.q", "available": "queues.q.avail"}
qf.beside("gr-stuck-two-waiting", range(5, 13), **shown)

# %% [markdown] id="answer-text"
# ## Back to the question
#
# The line that releases the first message while the second one is kept. A consumer that releases one
# message of a group has to release all later ones of that group as well, or reject instead.

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
answers = {"after_release": after_release or "none", "after_accept": after_accept.rstrip("*")}
predictions.compare(**answers, woken="yes" if woken else "no")

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - Accept when the work is **done**; a message may then come twice, marked as redelivered. *(CN-13, CN-15)*
# - A released message goes back to its **old place**. Release one and accept a later one, and the order of
#   the group is gone. Release all, or reject. *(CN-14, MG-18)*
# - Rejected messages go to the alternate exchange, if the queue has one. *(CN-16)*
# - An accept that frees a group **wakes no consumer**. A new message, a release, or the consumer's own
#   request does. *(MG-13)*
#
# ## Where next
#
# - In code: `qflow/broker/consuming.py` (one attempt to deliver) and `qflow/broker/groups.py`.

# %% [markdown] id="exercises"
# ## Exercises
#
# [Exercises 6 · Consumers](../exercises/06-consumers.ipynb), 20 minutes: what an idle consumer gets after
# an accept, a release or a new message, and how consumers take turns. The next chapter is [7 ·
# Configuration in all its spellings](07-configuration.ipynb).
