# %% [markdown] id="title"
# # 5 · Message groups: the shopping cart
#
# *30 minutes. You need nothing but this notebook. Run the cells from top to bottom with Shift+Enter.*
#
# **A question to begin with.** A customer puts a kettle into the shopping cart and takes it out again. Two
# messages, *add* and *remove*, arrive in this order. At the checkout the kettle is still in the cart. Which
# part of the system failed?

# %% [markdown] id="predict-text"
# ## Predict before you run
#
# On a queue with groups lie, from the front: `A-1`, `A-2`, `B-1`. (The letter is the group.)

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("05-message-groups")
predictions.ask("second", "third", "owners")

# %% [markdown] id="lab-text"
# ## Watch it, then switch the groups off
#
# Five carts; a cart's messages add an item and remove it again, in turn. Three consumers share the queue, a
# slow one, a middling one and a quick one. It pauses to ask you something: click a consumer, and press *go*.
# Then switch the groups **off** and compare the two numbers. Then click a message at a consumer, and accept,
# release or reject it.

# %% id="lab" jupyter={"source_hidden": true}
predictions.ask("next", lab=qf.group_lab())

# %% [markdown] id="objectives"
# At the end of this chapter you can
#
# - keep related messages in order, although several consumers share the queue;
# - say who owns a group, since when, and what ends it;
# - predict what a consumer gets, and what it is refused;
# - say what a message without a group belongs to.

# %% [markdown] id="naive-text"
# ## The naive way: a queue keeps the order, so all is well
#
# The queue does keep the order. But with two consumers two messages are worked on **at the same time**, and
# nobody knows who finishes first. Here the consumer with the *add* is a little slower.

# %% id="naive"
broker = qf.Broker()
shop = broker.session("shop")
shop.queue_declare("carts")
c1 = qf.Reader(broker, "c1", "carts", prefetch=1)
c2 = qf.Reader(broker, "c2", "carts", prefetch=1)
qf.send(shop, "carts", "cart7-add cart7-remove")
print("c1 works on", c1.holds, "  c2 works on", c2.holds)

done = []
done += c2.holds  # c2 is quick
c2.accept()
done += c1.holds
c1.accept()
print("done in this order:", done)

assert done == ["cart7-remove", "cart7-add"]

# %% [markdown] id="naive-then"
# The manual calls this a race: "the remove operation is incorrectly performed before the add operation". One
# consumer alone would be a cure, and a slow one. What we want is less: any two messages **of the same cart**
# must not be worked on at the same time. Different carts have nothing to do with each other.

# %% [markdown] id="mechanism-text"
# ## The mechanism: a group has one owner at a time
#
# Two arguments switch groups on when the queue is declared:
#
# - `qpid.group_header_key` names the application header in which producers put a message's group;
# - `qpid.shared_msg_group` is 1: several consumers share the queue, and each group keeps its order.
#
# The same two messages, with the cart in the header `cart`:

# %% id="mechanism"
GROUPS = {"qpid.group_header_key": "cart", "qpid.shared_msg_group": 1}


def shop_with_groups(labels, **arguments):
    broker = qf.Broker()
    shop = broker.session("shop")
    shop.queue_declare("carts", {**GROUPS, **arguments})
    qf.send(shop, "carts", labels, header="cart")
    return broker


def owners(broker):
    """Ask the broker's management who owns which group."""
    answer = broker.management.query("queue", "carts")["qpid.message_group_queue"]
    return {
        group["group_id"]: group["consumer"].partition("::")[0] or "free" for group in answer["group_state"]
    }


broker = shop_with_groups("cart7-add cart7-remove")
c1 = qf.Reader(broker, "c1", "carts", prefetch=1)
c2 = qf.Reader(broker, "c2", "carts", prefetch=1)
diary = qf.Diary(
    "the cart again", c1=lambda: c1.holds, c2=lambda: c2.holds, owner=lambda: owners(broker).get("cart7")
)
diary.note("both have subscribed")
c1.accept()
diary.note("c1 has accepted the add")

assert diary.column("c1") == [["cart7-add"], ["cart7-remove"]]
assert diary.column("c2") == [[], []]
diary

# %% [markdown] id="mechanism-then"
# `c2` sits idle although there is a message, because the message belongs to `c1`'s group. Being idle is the
# price of the order, and with one cart only, it is a high price. With many carts it disappears:

# %% [markdown] id="ab-text"
# ### A does not block B
#
# A consumer scans the queue from the front and takes the first message whose group is free or its own. What
# it may not have, it **skips**. So a message of group B that is *behind* a blocked group A is available.

# %% id="ab"
broker = shop_with_groups("A-1 A-2 B-1")
c1, c2 = (qf.Reader(broker, name, "carts") for name in ("c1", "c2"))
diary = qf.Diary(
    "A and B",
    c1=lambda: c1.holds,
    c2=lambda: c2.holds,
    owners=lambda: [f"{g}: {o}" for g, o in owners(broker).items()],
)
diary.note("at first")
c1.fetch()
diary.note("c1 fetches")
second = c2.fetch()
diary.note("c2 fetches")
c1.accept("A-1")
diary.note("c1 accepts A-1")
third = c2.fetch()
diary.note("c2 fetches again")

assert (second, third) == ("B-1", "A-2")
assert diary.column("owners")[-1] == ["A: c2", "B: c2"]
diary

# %% [markdown] id="ab-then"
# Look at the last two rows. With the accept of `A-1`, `c1` held nothing of A any more, and A was **free**.
# The next one to ask got it. A group does not stick to a consumer: only the *order* is guaranteed, not the
# *place*.

# %% [markdown] id="when-text"
# ### When exactly is a group free?
#
# When its owner holds none of its messages any more, whatever became of them. That is one condition for
# several endings. The manual mentions only the first of them.


# %% id="when"
def owner_after(action):
    broker = shop_with_groups("A-1 A-2 A-3")
    c1 = qf.Reader(broker, "c1", "carts", prefetch=2)
    action(c1)
    return owners(broker)["A"]


def cancel(consumer):
    consumer.session.message_cancel("c1")


endings = {
    "nothing: it holds A-1 and A-2": lambda c: None,
    "accepts A-1 only": lambda c: (cancel(c), c.accept("A-1")),
    "accepts A-2 only": lambda c: (cancel(c), c.accept("A-2")),
    "accepts both": lambda c: (cancel(c), c.accept()),
    "rejects both": lambda c: (cancel(c), c.reject()),
    "releases both": lambda c: (cancel(c), c.release()),
    "accepts A-1 and releases A-2": lambda c: (cancel(c), c.accept("A-1"), c.release("A-2")),
    "ends its subscription, keeping both": cancel,
    "ends its session": lambda c: c.close(),
}
found = {what: owner_after(action) for what, action in endings.items()}


assert list(found.values()) == ["c1", "c1", "c1", "free", "free", "free", "free", "c1", "free"]
qf.Table(found.items(), ("c1 holds A-1 and A-2, and …", "owner of A"), "what ends an ownership")

# %% [markdown] id="when-then"
# (In these experiments `c1` first ends its subscription, so that it does not get `A-3` at once and stay the
# owner.) Note the row before the last: ending the subscription is not enough. What was delivered stays with
# the session until it is settled, or until the session ends. *(MG-15, MG-16)*

# %% [markdown] id="prefetch-text"
# ### Prefetch: the first N
#
# A consumer with a prefetch of N may hold N messages at a time, of one group or of several. If the front of
# the queue is one long group, it gets N messages of it, and **all the rest of that group waits**, for
# everybody else, until it is done with all N.

# %% id="prefetch"
shares = {}
for prefetch in (1, 2, 4):
    broker = shop_with_groups("A-1 A-2 A-3 A-4 A-5 B-1 B-2")
    c1 = qf.Reader(broker, "c1", "carts", prefetch=prefetch)
    c2 = qf.Reader(broker, "c2", "carts", prefetch=prefetch)
    shares[prefetch] = (c1.holds, c2.holds)

assert shares[4] == (["A-1", "A-2", "A-3", "A-4"], ["B-1", "B-2"])
qf.Table(
    [(prefetch, *both) for prefetch, both in shares.items()],
    ("prefetch", "c1 holds", "c2 holds"),
    "five messages of A in front of two of B",
)

# %% [markdown] id="which-text"
# ## Which group is a message in?
#
# The producer decides, by the header; the **queue** decides which header is looked at. The same message can
# be in different groups on different queues. The value of the header is read as text, with a few twists:

# %% id="which"
VALUES = {
    "text 'seven'": "seven",
    "text '7'": "7",
    "integer 7": 7,
    "integer 2³¹": 2**31,
    "True": True,
    "7.5": 7.5,
    "empty text": "",
}


def group_of(headers):
    broker = qf.Broker()
    shop = broker.session("shop")
    shop.queue_declare("carts", GROUPS)
    shop.message_transfer(qf.Message(10, "carts", headers))
    (group,) = owners(broker)
    return group


groups = {name: group_of({"cart": value}) for name, value in VALUES.items()}
groups["no such header"] = group_of({"basket": "7"})

assert groups["text '7'"] == groups["integer 7"] == "7"
assert groups["True"] == groups["7.5"] == groups["empty text"] == groups["no such header"] == "qpid.no-group"
qf.Table(groups.items(), ("the header cart holds", "the message's group"), "how a group is found")

# %% [markdown] id="which-then"
# Two traps. A large integer is squeezed into 32 bits and comes out negative. And what has no text, or is not
# there at all, falls into the **default group**, `qpid.no-group`. That is a group like any other: it has one
# owner at a time. A forgotten header does not lift the order, it serialises everything.

# %% id="default"
broker = qf.Broker()
shop = broker.session("shop")
shop.queue_declare("carts", GROUPS)
qf.send(shop, "carts", "m-1 m-2 m-3 m-4 m-5 m-6")  # no header
workers = [qf.Reader(broker, f"c{number}", "carts", prefetch=1) for number in range(1, 7)]
busy = [worker.name for worker in workers if worker.holds]
print("consumers at work:", busy)

assert busy == ["c1"]

# %% [markdown] id="refused-text"
# ## What does not go together
#
# Groups and some other features contradict each other, and the broker refuses the queue: a last value queue
# replaces messages, a priority queue reorders them. And asking for groups halfway is refused as well.

# %% id="refused"
ATTEMPTS = [
    {"qpid.group_header_key": "cart"},
    {"qpid.shared_msg_group": 1},
    {**GROUPS, "qpid.last_value_queue_key": "k"},
    {**GROUPS, "qpid.priorities": 3},
    {**GROUPS, "qpid.shared_msg_group": "yes"},
]
refusals = []
for arguments in ATTEMPTS:
    try:
        qf.Broker().session("admin").queue_declare("carts", arguments)
    except qf.AmqpException as error:
        refusals.append((", ".join(key.removeprefix("qpid.") for key in arguments), error.code, error.text))

assert len(refusals) == len(ATTEMPTS) and all(code == 542 for _, code, _ in refusals)
qf.Table(refusals, ("arguments", "code", "the broker says"), "refused")

# %% [markdown] id="lab-parts"
# ## Back to the lab
#
# You know the rules now. Go back to the lab at the top of this chapter: the groups are on, and yet you can
# break the order of one of them by hand. How? (You need one release.)
#
# The next cell lets three consumers work on ten messages, who accept in turn.

# %% id="lab-words"
in_turn = qf.group_run()
print(*in_turn.claims[:5], sep="\n")

assert "in the order" in in_turn.claims[4]

# %% [markdown] id="owners-text"
# Each row is a group, each bar the time during which one consumer owned it. No row ever has two bars at the
# same time; that is all that the broker promises.

# %% id="owners"
qf.ownership_chart(in_turn)

# %% [markdown] id="scale-text"
# ## What does order cost?
#
# Four consumers, 600 messages a second, 50 groups of very different size: a few carts are very busy. The next
# run takes ten seconds of virtual time. With groups some consumers cannot find work that they are allowed to
# do; how much of the time, and does it matter?


# %% id="scale"
def serve(prefetch, grouped=True):
    arguments = {"qpid.group_header_key": "group", "qpid.shared_msg_group": 1} if grouped else {}
    workload = qf.Workload(
        "carts",
        duration=10,
        queues={"carts": {**arguments, "qpid.flow_stop_count": 0, "qpid.flow_stop_size": 0}},
        producers=(
            qf.Producer("p1", ("", "carts"), rate=600, capacity=1000, size=100, groups=(50, 0.8), seed=1),
        ),
        consumers=tuple(
            qf.Consumer(f"c{n}", "carts", prefetch=prefetch, service=("exp", 0.006), seed=n)
            for n in range(1, 5)
        ),
    )
    depth = backlog = 0
    for event in qf.simulate(workload).events:
        depth += {"enqueued": 1, "dequeued": -1}.get(event.kind, 0)
        if event.time <= 10_000_000:
            backlog = max(backlog, depth)
    return backlog


backlogs = {
    "no groups, prefetch 1": serve(1, grouped=False),
    "groups, prefetch 1": serve(1),
    "groups, prefetch 20": serve(20),
}

assert backlogs["no groups, prefetch 1"] < backlogs["groups, prefetch 1"]
qf.Table(backlogs.items(), ("four consumers", "largest backlog"), "6,000 messages in ten seconds, 50 groups")

# %% [markdown] id="scale-then"
# The order costs something, and how much depends on the sizes of the groups and on the prefetch. A good rule
# of thumb: **many more groups than consumers, and a small prefetch.** A group that is busier than one
# consumer can serve is a limit that no number of consumers lifts.

# %% [markdown] id="real-text"
# ## What the real broker did
#
# Two carts, recorded on a real broker and played beside the model. Follow `remove-1`: `c2` asks twice before
# step 11 and gets the other cart's messages. Only when `c1` has accepted `add-1` is the first cart free, and
# the next one to ask, `c2`, gets its second message.

# %% id="real"
recorded = qf.beside("gr-cart", c1="got.c1/s", c2="got.c2/s", groups="groups.q")

assert recorded.agrees
recorded

# %% [markdown] id="real-ab-text"
# And A in front of B. In step 12 `c2` asks a third time and gets nothing, although `A-2` and `A-3` lie there.

# %% id="real-ab"
recorded = qf.beside("gr-ab", c1="got.c1/s", c2="got.c2/s", groups="groups.q")

assert recorded.agrees
recorded

# %% [markdown] id="real-clients-text"
# And four real consumers, with prefetch 1, 5, 10 and 20, who shared a queue with 50 groups of very different
# size for half a minute. All four needed six milliseconds for a message. They did not get the same share:

# %% id="real-clients"
from collections import Counter

recordings = qf.kit_path("data") / "recordings" / "workloads"
log = qf.ClientLog.load(recordings / "groups-skewed.csv.gz")
shared = qf.Workload.load(recordings / "groups-skewed.json")
accepted = Counter(row.client for row in log.rows if row.event == "accept")

assert accepted["c1"] < accepted["c2"] < accepted["c4"]
qf.Table(
    [(consumer.name, consumer.prefetch, accepted[consumer.name]) for consumer in shared.consumers],
    ("consumer", "prefetch", "messages accepted"),
    "recorded from real clients of a real broker",
)

# %% [markdown] id="real-clients-then"
# Why? A consumer that holds 20 messages owns the groups of all of them, up to 20, although it works on one
# at a time. The others look at the queue and find only messages of groups that others own. The same
# workload, simulated for five seconds, tells how often each looked in vain:

# %% id="real-clients-idle"
run = qf.simulate(shared.replace(duration=5))
in_vain = Counter(event.link.partition("::")[0] for event in run.events if event.kind == "idle")
print({consumer.name: in_vain[consumer.name] for consumer in shared.consumers})

assert in_vain["c4"] < 50 < 200 < in_vain["c1"]

# %% [markdown] id="real-clients-cure"
# A large prefetch is good for the one who has it. With groups, give all consumers the same small one.

# %% [markdown] id="answer-text"
# ## Back to the question
#
# No part failed. The queue kept the order of *delivery*; the shop needed the order of *processing*. A group
# gives that, if the consumers keep their half of the contract: they accept a message only when they have
# really finished with it. What happens when they do not is the next chapter.

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
predictions.compare(second=second, third=third, owners=len(busy))

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - A group has at most **one owner**, from the first message it acquires until it holds none of the group's
#   messages any more: accepted, rejected or released. *(MG-07, MG-08)*
# - A consumer takes the first message whose group is free or its own, and skips the others: **A does not
#   block B**. *(MG-10, MG-12)*
# - Groups do not stick: the next owner may be anybody. *(MG-09, MG-25)*
# - Messages without a group are in the **default group**, one owner for all of them. *(MG-05)*
# - Groups need `qpid.shared_msg_group`, and do not go with last value, priorities or paging. *(MG-01)*
#
# ## Links on
#
# - The document behind this chapter: *Using Message Groups*, of the Apache Qpid C++ broker's manual.
# - In code: `qflow/broker/groups.py`; lay it beside the broker's `MessageGroupManager.cpp`.

# %% [markdown] id="exercises"
# ## Exercises
#
# [Exercises 5 · Message groups](../exercises/05-groups.ipynb), 35 minutes: which message a second consumer
# gets, what a prefetch takes, what settling out of order does, and how to declare a queue with groups in
# three ways. The next chapter is [6 · Well-behaved consumers](06-well-behaved-consumers.ipynb).
