# %% [markdown] id="title"
# # 6 · Well-behaved consumers
#
# *25 minutes. Chapter 5 first. Run the cells from top to bottom with Shift+Enter.*
#
# At the end of this chapter you can
#
# - say what accept, release and reject each promise, and choose the right one;
# - show how a consumer spoils the order of a group although the broker enforces it;
# - recognise a message that waits although a consumer is idle, and say what wakes it.
#
# **A question to begin with.** The queue has groups, the consumers are correct, and still a customer's
# *cancel* was processed before the *order*. The log shows: one consumer got both, released the first, and
# accepted the second. Which line of its code is wrong?

# %% [markdown] id="predict-text"
# ## Predict before you run
#
# Consumer `c1` holds `A-1` and `A-2` of group A; `A-3` lies behind them.

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("06-well-behaved-consumers")
predictions.ask()

# %% [markdown] id="naive-text"
# ## The naive way: accept first, work later
#
# *Accept* means: I take responsibility, you may forget it. Some programs accept as soon as a message arrives,
# to get it off the queue. Then they crash.

# %% id="naive"
GROUPS = {"qpid.group_header_key": "G", "qpid.shared_msg_group": 1}


def queue_with(labels, **arguments):
    broker = qf.Broker()
    shop = broker.session("shop")
    shop.queue_declare("q", {**GROUPS, **arguments})
    qf.send(shop, "q", labels, header="G")
    return broker


def after_crash(accepts_first):
    broker = queue_with("A-1 A-2")
    first = qf.Reader(broker, "first", "q", prefetch=2)
    if accepts_first:
        first.accept("A-1")
    first.close()  # it crashes while it works on A-1
    second = qf.Reader(broker, "second", "q", prefetch=2)
    return second.got


hasty, patient = after_crash(accepts_first=True), after_crash(accepts_first=False)

assert hasty == ["A-2*"] and patient == ["A-1*", "A-2*"]
qf.Table(
    [("accepts on arrival", hasty), ("accepts when the work is done", patient)],
    ("the first consumer", "what the second one gets after the crash"),
    "the star marks a redelivered message",
)

# %% [markdown] id="naive-then"
# The hasty consumer has lost `A-1`, and the group goes on with `A-2` as if it had been done. The manual asks
# for the other way: completely process the message, that is, finish "updating all state related to the
# message", **before** accepting it. The price is that a message may come twice. The star is the broker's
# hint: it has been delivered before.

# %% [markdown] id="three-text"
# ## The mechanism: three ways to settle a message
#
# | | means | the message |
# |---|---|---|
# | **accept** | done | leaves the queue |
# | **release** | not by me, not now | goes back to its old place, for anybody |
# | **reject** | nobody shall try this again | leaves the queue, for the alternate exchange if there is one |
#
# Each of the three ends the ownership of the group, *if* it was the last message of the group that the
# consumer held. The middle one is the dangerous one.

# %% [markdown] id="order-text"
# ### Releasing one and accepting the next
#
# This is the example of the manual's note "Be Advised". Follow `A-1`.

# %% id="order"
broker = queue_with("A-1 A-2 A-3")
c1, c2 = qf.Reader(broker, "c1", "q"), qf.Reader(broker, "c2", "q")
c1.fetch(), c1.fetch()
processed = []

c1.release("A-1")
after_release = c2.fetch()
print("c1 has released A-1; c2 asks and gets:", after_release)

c1.accept("A-2")
processed.append("A-2")
after_accept = c2.fetch()
print("c1 has accepted A-2; c2 asks and gets:", after_accept)

c2.fetch()
processed += c2.holds
c2.accept()
print("processed in this order:", processed)

assert after_release is None
assert processed == ["A-2", "A-1", "A-3"]

# %% [markdown] id="order-then"
# The broker did nothing wrong. At no time did two consumers hold messages of A. But it cannot know that
# `A-2` makes no sense before `A-1`; it only knows who holds what.
#
# ### What keeps the order
#
# Either give back **everything** you hold of the group, or get rid of the one message for good.


# %% id="cures"
def order_after(settle):
    broker = queue_with("A-1 A-2 A-3")
    c1, c2 = qf.Reader(broker, "c1", "q"), qf.Reader(broker, "c2", "q")
    c1.fetch(), c1.fetch()
    done = settle(c1)
    while c2.fetch():
        pass
    return done + [label.rstrip("*") for label in c2.holds]


cures = {
    "release A-1, accept A-2": lambda c: (c.release("A-1"), c.accept("A-2"), ["A-2"])[-1],
    "release both": lambda c: (c.release(), [])[-1],
    "reject A-1, accept A-2": lambda c: (c.reject("A-1"), c.accept("A-2"), ["A-2"])[-1],
    "accept A-1, release A-2": lambda c: (c.accept("A-1"), c.release("A-2"), ["A-1"])[-1],
}
orders = {what: order_after(settle) for what, settle in cures.items()}

assert orders["release A-1, accept A-2"] == ["A-2", "A-1", "A-3"]
assert all(order == sorted(order) for what, order in orders.items() if what != "release A-1, accept A-2")
qf.Table(
    [(what, order, "kept" if order == sorted(order) else "broken") for what, order in orders.items()],
    ("c1 holds A-1 and A-2, and does this", "processed in all", "order"),
    "one of four breaks the order",
)

# %% [markdown] id="reject-text"
# ### Where rejected messages go
#
# A rejected message is gone, unless the queue was declared with an **alternate exchange**. Then it is sent
# there, and a queue bound to it collects what nobody could use: a *dead letter queue*. *(CN-16)*

# %% id="reject"
broker = qf.Broker()
admin = broker.session("admin")
admin.queue_declare("work", GROUPS, alternate_exchange="amq.fanout")
admin.queue_declare("dead letters")
admin.exchange_bind("dead letters", "amq.fanout")
qf.send(admin, "work", "A-1 A-2", header="G")
consumer = qf.Reader(broker, "consumer", "work", prefetch=1)
consumer.reject("A-1")

print("dead letters:   ", qf.Reader(broker, "undertaker", "dead letters", prefetch=5).got)
print("and now at work:", consumer.holds)

assert consumer.holds == ["A-2"]

# %% [markdown] id="lab-text"
# ### The lab
#
# Play it yourself: one group, three messages, two consumers. Release the first message and accept the second.

# %% id="lab"
qf.group_lab(messages="AAA", prefetch=(2, 1), paces=()).play()

# %% id="lab-words"
played = qf.group_run(
    messages="AAA", prefetch=(2, 1), actions=[("c1", "release"), ("c1", "accept"), ("c1", "accept")]
)
print(*played.claims[:2], sep="\n")

# %% [markdown] id="surprise-text"
# ## The surprise: the lost wake-up
#
# Now something that no manual mentions. `c1` holds `A-1`. `c2` waits with plenty of credit; it has looked at
# the queue, found only messages of a group that is not its own, and gone to sleep. `c1` accepts `A-1` and
# asks for no more. Group A is free. `A-2` lies there. And?


# %% id="surprise"
def two_waiting(options=None):
    broker = qf.Broker(options)
    trace = qf.record(broker)
    shop = broker.session("shop")
    shop.queue_declare("q", GROUPS)
    qf.send(shop, "q", "A-1 A-2", header="G")
    c1 = qf.Reader(broker, "c1", "q")
    c1.fetch()
    c2 = qf.Reader(broker, "c2", "q", prefetch=5)
    diary = qf.Diary(
        "who wakes c2?",
        c1=lambda: c1.holds,
        c2=lambda: c2.holds,
        available=lambda: broker.queue("q").statistics().messageCount,
    )
    diary.note("c1 holds A-1, c2 waits")
    c1.accept("A-1")
    diary.note("c1 accepts A-1")
    return broker, trace, diary


broker, trace, diary = two_waiting()
woken = diary.column("c2")[-1] != []
instant = len(trace) - 1

qf.send(broker.session("another shop"), "q", "B-1", header="G")
diary.note("a message of group B arrives")

assert not woken
assert diary.column("available") == [1, 1, 0]
assert diary.column("c2")[-1] == ["A-2", "B-1"]
diary

# %% [markdown] id="surprise-then"
# Nothing happens. The accept frees the group, but **wakes nobody**. The message lies on the queue, a consumer
# with credit is there, and both wait, until something quite different wakes the consumer: here a
# message of another group. On a quiet queue that may take for ever. *(MG-13)*
#
# We can ask the engine for its reasons:

# %% id="explain"
print(qf.explain(trace, instant, "consumer:c2").text(with_sources=False))

# %% [markdown] id="eager-text"
# The engine also knows the other behaviour, in which freeing a group wakes a waiting consumer. The real
# broker never had it.

# %% id="eager"
_, _, eager = two_waiting(qf.BrokerOptions(wake_up="eager"))

assert eager.column("c2")[-1] == ["A-2"]
eager

# %% [markdown] id="live-text"
# ### How to live with it
#
# Any of these makes a waiting consumer look again:
#
# - a new message on the queue, of whatever group;
# - a *release* (releases do wake);
# - the consumer itself: a new grant of credit, or a fetch. A client that fetches one message at a time looks
#   each time it fetches, so it never notices the problem.


# %% id="live"
def woken_by(action):
    broker, _, diary = two_waiting()
    action(broker)
    diary.note("then")
    return diary.column("c2")[-1] != []


def fetch(broker):
    broker.sessions["c2"].fetch("c2")


actions = {
    "nothing": lambda broker: None,
    "time passes": lambda broker: broker.advance(60_000_000),
    "a message arrives": lambda broker: qf.send(broker.session("s"), "q", "C-1", header="G"),
    "c2 fetches": fetch,
    "c1 ends its session": lambda broker: broker.sessions["c1"].close(),
}
effects = {what: woken_by(action) for what, action in actions.items()}

assert list(effects.values()) == [False, False, True, True, True]
qf.Table(effects.items(), ("after the accept", "does c2 get A-2?"), "what wakes an idle consumer")

# %% [markdown] id="real-text"
# ## What the real broker did
#
# First the note of the manual, recorded: `c2` gets `A-1` after `A-2` was accepted.

# %% id="real"
recorded = qf.beside("gr-release-accept-order", range(7, 15), c1="got.c1/s", c2="got.c2/s", groups="groups.q")

assert recorded.agrees
recorded

# %% [markdown] id="real-two-text"
# And the lost wake-up. In step 8 `c1` accepts, and nobody gets anything; `A-2` and `A-3` lie on a free
# group, `c2` and `c3` have credit. In step 9 one more message of A arrives, and `c2` gets all three.

# %% id="real-two"
lost = qf.beside(
    "gr-stuck-two-waiting",
    range(5, 13),
    c2="got.c2/s",
    c3="got.c3/s",
    groups="groups.q",
    available="queues.q.avail",
)

assert lost.agrees
lost

# %% [markdown] id="answer-text"
# ## Back to the question
#
# The line that releases the first message while the second one is kept. A consumer that gives back one
# message of a group has to give back all later ones of that group too, or reject instead.

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
predictions.compare(
    after_release=after_release or "none",
    after_accept=after_accept.rstrip("*"),
    woken="yes" if woken else "no",
)

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - Accept when the work is **done**; a message may then come twice, marked as redelivered. *(CN-13, CN-15)*
# - A released message goes back to its **old place**. Release one and accept a later one, and the order of
#   the group is gone. Release all, or reject. *(CN-14, MG-18)*
# - Rejected messages go to the alternate exchange, if the queue has one. *(CN-16)*
# - An accept that frees a group **wakes nobody**. A new message, a release, or the consumer's own request
#   does. *(MG-13)*
#
# ## Links on
#
# - In code: `qflow/broker/dispatch.py` (one attempt to deliver) and `qflow/broker/groups.py`.

# %% [markdown] id="exercises"
# ## Exercises
#
# [Exercises 6 · Consumers](../exercises/06-consumers.ipynb), 20 minutes: what an idle consumer gets after
# an accept, a release or a new message, and how consumers take turns. The next chapter is [7 ·
# Configuration in all its spellings](07-configuration.ipynb).
