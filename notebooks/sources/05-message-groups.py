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
# A queue with groups holds, from the front: `A-1`, `A-2`, `B-1`. (The letter is the group.)

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("05-message-groups")
predictions.ask("second", "third", "owners")

# %% [markdown] id="lab-text"
# ## Watch it, then switch the groups off
#
# Five carts; the messages of each cart add an item and remove it again, in turn. Three consumers share the
# queue: a slow one, a medium one and a quick one. Each may hold a few messages that it has not yet accepted;
# that number is its **prefetch**. The lab pauses to ask you something: click a consumer, and press *go*. Then
# switch the groups **off** and compare the two numbers. After that, click a message at a consumer, and
# accept, release or reject it.

# %% id="lab" jupyter={"source_hidden": true}
predictions.ask("next", lab=qf.group_lab())

# %% [markdown] id="objectives"
# At the end of this chapter you can
#
# - keep related messages in order, although several consumers share the queue;
# - say who owns a group, since when, and what ends it;
# - predict what a consumer gets, and what it is refused;
# - name the group of a message without the group header.

# %% [markdown] id="naive-text"
# ## The naive way: a queue keeps the order, so all is well
#
# The queue does keep the order. But two consumers work on two messages **at the same time**, and which one
# finishes first depends on the consumers. Here the one with the *add* is slower: it takes two seconds for a
# message, the other takes one. Without groups:

# %% id="naive"
cart = {"messages": "AA", "prefetch": (1, 1), "paces": (2, 1)}
without = qf.group_run(**cart, grouped=False)
print(*without.claims, sep="\n")

# %% id="naive-check" jupyter={"source_hidden": true}
assert "in 1 of 1 cart." in without.claims[-1]

# %% [markdown] id="naive-then"
# The manual calls this a race condition: "the remove operation is incorrectly performed before the add
# operation". A single consumer would solve it, but slowly. Less is enough: no two messages **of the same
# cart** may be processed at the same time. Different carts have nothing to do with each other.

# %% [markdown] id="mechanism-text"
# ## The mechanism: a group has one owner at a time
#
# Two arguments switch groups on when the queue is declared:
#
# - `qpid.group_header_key` names the application header in which producers put a message's group;
# - `qpid.shared_msg_group` is 1: several consumers share the queue, and each group keeps its order.
#
# The same two messages and consumers, with groups:

# %% id="mechanism"
print(*qf.group_run(**cart).claims, sep="\n")
assert "in 0 of 1 cart." in qf.group_run(**cart).claims[-1]

# %% [markdown] id="mechanism-then"
# `c2` is idle although there is a message, because the message belongs to `c1`'s group. Idleness is the
# price of order, and with only one cart it is a high price. With many carts it disappears:

# %% [markdown] id="spellings-text"
# ### Three ways to ask for groups
#
# You can give the two arguments to `queue.declare`, as this notebook does. From a shell, `qpid-config` has
# two options for them: `--group-header` names the header, and `--shared-groups` is a switch without a value.
# And an **address string**, with which a client opens a queue, can carry the arguments, so that the client
# makes the queue if it is missing. Mind the quotes: a key with a dot in it needs them. The next cell reads
# all three, and finds the same queue. *(MG-01, CF-14)*

# %% id="spellings"
GROUPS = {"qpid.group_header_key": "cart", "qpid.shared_msg_group": 1}

line = "qpid-config add queue carts --group-header=cart --shared-groups"
address = """carts; {create: always, node: {x-declare: {arguments:
    {'qpid.group_header_key': 'cart', 'qpid.shared_msg_group': 1}}}}"""
from_line, from_address = qf.configuration.read_any(line), qf.configuration.read_any(address)
print("from qpid-config:", from_line.arguments)
print("from the address:", from_address.arguments)

# %% id="spellings-check" jupyter={"source_hidden": true}
assert from_line.arguments == from_address.arguments == GROUPS
# A client that opens the address makes the queue, and the second consumer is kept from A.
opened = qf.messaging.Connection.establish("groups.example").session()
to_carts = opened.sender(address)
for label in ("A-1", "A-2", "B-1"):
    to_carts.send(qf.messaging.Message(label, properties={"cart": label[0]}))
two_readers = [opened.connection.session().receiver("carts", capacity=0) for _ in range(2)]
assert [reader.fetch(timeout=0).content for reader in two_readers] == ["A-1", "B-1"]

# %% [markdown] id="ab-text"
# ### A does not block B
#
# A consumer scans the queue from the front and takes the first message whose group is free or its own. It
# **skips** every message that it may not have. So a message of group B that is *behind* a blocked group A
# is available.


# %% id="ab"
def shop_with_groups(labels):
    broker = qf.Broker()
    shop = broker.session("shop")
    shop.queue_declare("carts", GROUPS)
    qf.send(shop, "carts", labels, header="cart")
    return broker


def owners(broker):
    """Ask the broker's management who owns which group."""
    groups = broker.management.query("queue", "carts")["qpid.message_group_queue"]["group_state"]
    return {one["group_id"]: one["consumer"].partition("::")[0] or "free" for one in groups}


broker = shop_with_groups("A-1 A-2 B-1")
c1, c2 = (qf.Reader(broker, name, "carts") for name in ("c1", "c2"))
diary = qf.Diary("A and B", c1=lambda: c1.holds, c2=lambda: c2.holds, owners=lambda: owners(broker))
c1.fetch()
second = c2.fetch()
diary.note("c1 fetches, then c2")
c1.accept("A-1")
third = c2.fetch()
diary.note("c1 accepts A-1, c2 fetches again")

diary

# %% id="ab-check" jupyter={"source_hidden": true}
assert (second, third) == ("B-1", "A-2") and owners(broker) == {"A": "c2", "B": "c2"}

# %% [markdown] id="ab-then"
# Once `c1` had accepted `A-1`, it held nothing of A any more, and A was **free**. The next consumer to
# ask got it. A group does not stick to a consumer: only the *order* is guaranteed, not the *place*.

# %% [markdown] id="when-text"
# ### When exactly is a group free?
#
# When its owner no longer holds any of its messages, whatever became of them. This one condition covers
# several cases. The manual mentions only the first of them.


# %% id="when"
def owner_after(*does):
    broker = shop_with_groups("A-1 A-2 A-3")
    c1 = qf.Reader(broker, "c1", "carts", prefetch=2)
    c1.session.message_cancel("c1")
    for verdict, *labels in does:
        getattr(c1, verdict)(*labels)
    return owners(broker)["A"]


found = {
    "ends its subscription, keeping both": owner_after(),
    "accepts A-1 only": owner_after(("accept", "A-1")),
    "accepts both": owner_after(("accept",)),
    "rejects both": owner_after(("reject",)),
    "accepts A-1 and releases A-2": owner_after(("accept", "A-1"), ("release", "A-2")),
    "ends its session": owner_after(("close",)),
}

qf.Table(found.items(), ("c1 holds A-1 and A-2, and …", "owner of A"), "what ends an ownership")

# %% id="when-check" jupyter={"source_hidden": true}
assert list(found.values()) == ["c1", "c1", "free", "free", "free", "free"]

# %% [markdown] id="when-then"
# (In these experiments `c1` first ends its subscription, so that it does not get `A-3` at once and stay the
# owner.) Note the first row: ending the subscription is not enough. What was delivered stays with
# the session until it is settled, or until the session ends. *(MG-15, MG-16)*

# %% [markdown] id="prefetch-text"
# ### Prefetch: the first N
#
# A consumer with a prefetch of N may hold N messages at a time, of one group or of several. If the front of
# the queue is one long group, it gets N messages of it, and **all the rest of that group waits** until it
# has settled all N; no other consumer gets it.

# %% id="prefetch"
shares = []
for prefetch in (1, 2, 4):
    broker = shop_with_groups("A-1 A-2 A-3 A-4 A-5 B-1 B-2")
    readers = [qf.Reader(broker, name, "carts", prefetch=prefetch) for name in ("c1", "c2")]
    shares.append((prefetch, *(reader.holds for reader in readers)))

qf.Table(shares, ("prefetch", "c1 holds", "c2 holds"), "five messages of A in front of two of B")

# %% id="prefetch-check" jupyter={"source_hidden": true}
assert shares[-1] == (4, ["A-1", "A-2", "A-3", "A-4"], ["B-1", "B-2"])

# %% [markdown] id="which-text"
# ## Which group is a message in?
#
# The producer decides, by the value of a header; the **queue** decides which header that is. The same
# message can be in different groups on different queues. The value of the header is read as text, with a few
# exceptions:


# %% id="which"
def group_of(headers):
    broker = shop_with_groups("")
    broker.session("other").message_transfer(qf.Message(10, "carts", headers))
    return next(iter(owners(broker)))


VALUES = ("seven", "7", 7, 2**31, True, 7.5, "")
groups = {repr(value): group_of({"cart": value}) for value in VALUES}
groups["no such header"] = group_of({"basket": "7"})

qf.Table(groups.items(), ("the header cart holds", "the message's group"), "how a group is found")

# %% id="which-check" jupyter={"source_hidden": true}
assert groups["'7'"] == groups["7"] == "7" and groups["True"] == groups["no such header"] == "qpid.no-group"
# A large integer is cut to 32 bits; what has no text is in the default group.
assert groups["2147483648"] == "-2147483648" and groups["7.5"] == groups["''"] == "qpid.no-group"

# %% [markdown] id="which-then"
# There are two traps. A large integer is cut to 32 bits and becomes negative. And a value without a text
# form, or a missing header, puts the message into the **default group**, `qpid.no-group`. That is a group
# like any other: it has one owner at a time. A forgotten header gives no parallel work: all such messages
# are processed one after the other.

# %% id="default"
broker = shop_with_groups("")
qf.send(broker.session("other"), "carts", "m-1 m-2 m-3 m-4 m-5 m-6")  # no header
workers = [qf.Reader(broker, f"c{number}", "carts", prefetch=1) for number in range(1, 7)]
busy = [worker.name for worker in workers if worker.holds]
print("consumers at work:", busy)

# %% id="default-check" jupyter={"source_hidden": true}
assert busy == ["c1"]

# %% [markdown] id="named-text"
# ### Another name for the default group
#
# If one of your groups happens to be called `qpid.no-group`, start the broker with another name for the
# default: `qpidd --default-message-group=EMPTY-GROUP`. (The manual's example spells the option
# `--default-msg-group`; there is no such option, and the broker does not start.) *(MG-05)*

# %% id="named"
renamed = qf.Broker(qf.BrokerOptions.parse(["--default-message-group=EMPTY-GROUP"]))
renamed.session("shop").queue_declare("carts", GROUPS)
qf.send(renamed.sessions["shop"], "carts", 1)
print("the message without a header is in:", *owners(renamed))
try:
    qf.BrokerOptions.parse(["--default-msg-group=EMPTY-GROUP"])
except qf.StartupError as error:
    not_started = error
    print(error)

# %% id="named-check" jupyter={"source_hidden": true}
assert owners(renamed) == {"EMPTY-GROUP": "free"} and not_started

# %% [markdown] id="many-text"
# ### How many groups?
#
# You need not tell the broker which groups there will be: it learns each one from the first message that
# names it. The manual sees "no practical limit" to their number other than memory. Ten thousand messages,
# each in a cart of its own, and one consumer that takes them all:

# %% id="many"
many = qf.Broker()
shop = many.session("shop")
shop.queue_declare("carts", GROUPS)
for number in range(10_000):
    shop.message_transfer(qf.Message(1, "carts", {"cart": f"cart {number}"}))
before = owners(many)
takes_all = qf.Reader(many, "c1", "carts", prefetch=10_000)
after = owners(many)
print(f"{len(before):,} groups, all free: {set(before.values()) == {'free'}}")
print(f"{len(after):,} groups, all owned by c1: {set(after.values()) == {'c1'}}")
takes_all.accept()
print(f"{len(owners(many)):,} groups, once all is accepted")

# %% id="many-check" jupyter={"source_hidden": true}
# Every group is learned from its message, owned at once, and forgotten with its last message.
assert (len(before), len(after), len(owners(many))) == (10_000, 10_000, 0)
assert set(before.values()) == {"free"} and set(after.values()) == {"c1"}

# %% [markdown] id="refused-text"
# ## What does not go together
#
# Groups and some other features contradict each other, and the broker refuses the queue: a last value queue
# replaces messages, a priority queue reorders them. A declaration with only one of the two arguments is
# refused as well.


# %% id="refused"
def refused(arguments):
    try:
        qf.Broker().session("admin").queue_declare("carts", arguments)
    except qf.AmqpException as error:
        return error.code, error.text


attempts = [{"qpid.group_header_key": "cart"}, {"qpid.shared_msg_group": 1}]
attempts += [{**GROUPS, "qpid.last_value_queue_key": "k"}, {**GROUPS, "qpid.priorities": 3}]
refusals = [(", ".join(keys).replace("qpid.", ""), *refused(keys)) for keys in attempts]
qf.Table(refusals, ("arguments", "code", "the broker says"), "refused")

# %% id="refused-check" jupyter={"source_hidden": true}
assert all(code in (540, 542) for _, code, _ in refusals)

# %% [markdown] id="lab-parts"
# ## Back to the lab
#
# You know the rules now. Go back to the lab at the top of this chapter: the groups are on, and yet you can
# break the order of one of them by hand. How? (You need one release.)
#
# Below, three consumers work on ten messages and accept in turn. Each row is a group, each bar the time
# during which one consumer owned it. No row ever has two bars at the same time; that is all that the broker
# promises.

# %% id="owners"
qf.ownership_chart(qf.group_run())

# %% [markdown] id="scale-text"
# ## What does order cost?
#
# Four consumers, 600 messages a second, 50 groups of very different sizes: a few carts are very busy. The
# next run takes ten seconds of virtual time. With groups, some consumers find no work that they are allowed
# to do. How often, and does it matter?


# %% id="scale"
def backlog(prefetch, grouped=True):
    arguments = {"qpid.group_header_key": "group", "qpid.shared_msg_group": 1} if grouped else {}
    p1 = qf.Producer("p1", ("", "carts"), rate=600, capacity=1000, size=100, groups=(50, 0.8), seed=1)
    service = {"prefetch": prefetch, "service": ("exp", 0.006)}
    consumers = tuple(qf.Consumer(f"c{n}", "carts", **service, seed=n) for n in range(1, 5))
    queue = {**arguments, "qpid.flow_stop_count": 0, "qpid.flow_stop_size": 0}
    run = qf.simulate(qf.Workload("carts", 10, {"carts": queue}, producers=(p1,), consumers=consumers))
    return max(qf.picture_of(run).frames.column("queue.carts.depth"))


backlogs = {
    "no groups, prefetch 1": backlog(1, grouped=False),
    "groups, prefetch 1": backlog(1),
    "groups, prefetch 20": backlog(20),
}

qf.Table(backlogs.items(), ("four consumers", "largest backlog"), "6,000 messages in ten seconds, 50 groups")

# %% id="scale-check" jupyter={"source_hidden": true}
assert backlogs["no groups, prefetch 1"] < backlogs["groups, prefetch 1"]

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
qf.beside("gr-cart", c1="got.c1/s", c2="got.c2/s", groups="groups.q")

# %% [markdown] id="real-ab-text"
# And A in front of B. In step 12 `c2` asks a third time and gets nothing, although `A-2` and `A-3` are on
# the queue.

# %% id="real-ab"
recorded = qf.beside("gr-ab", c1="got.c1/s", c2="got.c2/s", groups="groups.q")

recorded

# %% id="real-ab-check" jupyter={"source_hidden": true}
assert recorded.agrees

# %% [markdown] id="real-clients-text"
# And four real consumers, with prefetch 1, 5, 10 and 20, who shared a queue with 50 groups of very different
# size for half a minute. All four needed six milliseconds for a message. They did not get the same share:

# %% id="real-clients"
from collections import Counter

recordings = qf.kit_path("data") / "recordings" / "workloads"
log = qf.ClientLog.load(recordings / "groups-skewed.csv.gz")
shared = qf.Workload.load(recordings / "groups-skewed.json")
accepted = Counter(row.client for row in log.rows if row.event == "accept")
run = qf.simulate(shared.replace(duration=5))
in_vain = Counter(event.link.partition("::")[0] for event in run.events if event.kind == "idle")
rows = [(c.name, c.prefetch, accepted[c.name], in_vain[c.name]) for c in shared.consumers]

columns = ("consumer", "prefetch", "messages accepted", "looks in vain (simulated, 5 s)")
qf.Table(rows, columns, "recorded from real clients of a real broker")

# %% id="real-clients-check" jupyter={"source_hidden": true}
assert accepted["c1"] < accepted["c2"] < accepted["c4"] and in_vain["c4"] < 50 < 200 < in_vain["c1"]

# %% [markdown] id="real-clients-then"
# Why? A consumer that holds 20 messages owns the groups of all of them, up to 20, although it works on
# one at a time. The others look at the queue and find only messages of groups that others own. The last
# column comes from a five-second simulation of the same workload: how often each looked and found
# nothing.
#
# A large prefetch is good for the consumer that has it, at the expense of the others. With groups, give all
# consumers the same small one.

# %% [markdown] id="answer-text"
# ## Back to the question
#
# No part failed. The queue kept the order of *delivery*; the shop needed the order of *processing*. A group
# gives that, if the consumers keep their part of the contract: they accept a message only when they have
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
# - Groups do not stick: the next owner may be any consumer. *(MG-09, MG-25)*
# - Messages without a group are in the **default group**, one owner for all of them. *(MG-05)*
# - Groups need `qpid.shared_msg_group`, and do not go with last value, priorities or paging. *(MG-01)*
#
# ## Where next
#
# - The same in RabbitMQ, Artemis and Kafka: [If you know another broker](reference/other-brokers.md).
# - The document behind this chapter: *Using Message Groups*, of the Apache Qpid C++ broker's manual.
# - In code: `qflow/broker/groups.py`; compare it with the broker's `MessageGroupManager.cpp`.

# %% [markdown] id="exercises"
# ## Exercises
#
# [Exercises 5 · Message groups](../exercises/05-groups.ipynb), 40 minutes: which message a second consumer
# gets, what a prefetch takes, what settling out of order does, and how to declare a queue with groups in
# three ways. The next chapter is [6 · Well-behaved consumers](06-well-behaved-consumers.ipynb).
