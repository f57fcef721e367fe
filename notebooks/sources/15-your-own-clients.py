# %% [markdown] id="title"
# # 15 · Your own clients
#
# *45 minutes. Chapters 1 and 3 first. Run the cells from top to bottom with Shift+Enter.*
#
# At the end of this chapter you can
#
# - tell which of your clients stop when the broker asks them to, which messages the others lose, and how to
#   cure them;
# - put the engine behind a port, point the client that you use at work to it, and see it in the picture;
# - name fifteen surprises of AMQP 1.0 on this broker, each shown by a client on a real socket.
#
# This chapter needs Proton, the client library of AMQP 1.0. If the first cell says that it is not here,
# install it in a terminal with `pip install ".[live]"` in a checkout (else `qflow serve` names the way; it
# has to be compiled, which takes half a minute) and restart the kernel. Chapters 0 to 14 do without.
#
# **A question to begin with.** AMQP 1.0 is famous for its credit: a receiver says how many messages it
# wants, and no sender sends more. A queue is full, and the broker wants a sender to stop. How much credit
# does it take away?

# %% [markdown] id="predict-text"
# ## Predict before you run

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("15-your-own-clients")
predictions.ask()

# %% [markdown] id="table-text"
# ## Does your client stop?
#
# Thirty-five ways to send, of a dozen libraries: 6,000 messages each to a queue with stop 10 and resume 5
# that nobody reads. *On the queue* is where it ended: 11 or 60 is a client that stops, 6,000 one that does
# not. Look for yours.

# %% id="table"
qf.client_table("proton")

# %% [markdown] id="table-then"
# Leave the word out for all of them; [Does your client stop?](reference/clients.md) has the knowledge of
# each client about its refused messages, and programs with a cure. Now measure one. The program may be in
# any language: it finds the broker in the variables `AMQP_URL`, `AMQP_QUEUE` and `AMQP_MESSAGES`. **Put
# your own in the first line**; at present it has Proton's documented pattern. Predict: how many of 2,100
# messages does it lose at a limit of 30?

# %% id="measure"
import sys

CLIENT = [sys.executable, str(qf.kit_path("data") / "clients" / "proton_credit.py")]
FACTS = ("stops", "goes-on", "loses-nothing")
QUICK = qf.live.Conditions(messages=2_100, still=0.5, timeout=8)

card = qf.check_client(CLIENT, QUICK, progress=lambda done, total, case: print("measure:", case))
print({name: card.fact(name) for name in FACTS}, " lost:", card.count_lost("limit"), "of", card.total)

# %% [markdown] id="cure-text"
# It never stops, and 2,070 messages are gone without an error. The cure counts the transfers without an
# outcome, and resends released messages; 300 messages do, as it has to wait for room. `print(card)` says it
# in sentences.

# %% id="cure"
CURE = [sys.executable, str(qf.kit_path("data") / "clients" / "proton_window_cured.py")]

FEW = QUICK._replace(messages=300)
cured = qf.check_client(CURE, FEW, progress=lambda done, total, case: print("measure:", case))
print({name: cured.fact(name) for name in FACTS})

# %% id="cure-check" jupyter={"source_hidden": true}
assert cured.stops and cured.goes_on and cured.loses_nothing

# %% [markdown] id="naive-text"
# ## A client that blocks before your eyes
#
# `qf.serve` puts the engine behind a port, in a thread of its own. Its `lab()` is the picture of all
# chapters, as the broker runs: the clients are real, and come over a socket. A sender in a thread of its
# own takes the place of your program.

# %% id="libraries"
import threading

from proton import Message, Timeout
from proton.handlers import MessagingHandler
from proton.reactor import Container
from proton.utils import BlockingConnection

# %% id="live"
broker = qf.serve("orders --flow-stop-count=10 --flow-resume-count=5 --max-queue-count=60")
broker.lab()

# %% id="naive"
sent = []


def shop():
    connection = BlockingConnection(broker.url, timeout=60, container_id="shop")
    sender = connection.create_sender("orders")
    for number in range(20):
        sender.send(Message(body=f"order {number}"))
        sent.append(number)
    connection.close()


program = threading.Thread(target=shop)
program.start()
program.join(2)

print("accepted:", len(sent), " on the queue:", broker.broker.queue("orders").message_depth)
print("does it still wait?", program.is_alive())

# %% id="naive-check" jupyter={"source_hidden": true}
assert len(sent) == 10 and program.is_alive()

# %% [markdown] id="naive-then"
# The eleventh message is **on the queue**, and `send` waits for its outcome. Look at the picture: one
# completion behind the gate, one cell in the sender's window. Now a reader comes.

# %% id="release"
reader = broker.client("reader")
inbox = reader.receiver("orders")
for _ in range(20):
    inbox.give_credit(1)
    inbox.accept()
program.join(10)
reader.round_trip()

print("accepted:", len(sent), " received:", len(inbox.received()), " waits:", program.is_alive())

# %% id="release-check" jupyter={"source_hidden": true}
assert len(sent) == 20 and not program.is_alive()

# %% [markdown] id="live-then"
# *pause* in the picture makes a still of all that has happened: step back through it, click on anything and
# ask why. Drag the stop line: a running queue keeps its thresholds (FC-12), so the line makes a new queue,
# and says so. The trace is there for every other lab: `broker.trace()`.

# %% id="stop"
reader.close()
broker.close()
served = broker.trace()
print("transfers in the trace:", list(served.kind).count("message.transfer"))

# %% [markdown] id="terminal-text"
# ## Your terminal
#
# The client that you use at work need not be in Python, nor in a notebook. In a terminal:
#
#     qflow serve --port 5672 --queue 'orders --flow-stop-count=10 --flow-resume-count=5'
#     qflow check-client -- java -jar our-client.jar       # finds the broker by AMQP_URL
#     qflow record --listen 5673 --upstream broker.example:5672 --out monday.parquet
#
# The first is this broker for any program that speaks AMQP 1.0, the second a bench that describes in six
# lines whether a program stops, its behaviour at a limit and its losses, the third a proxy between your
# clients and the broker that you run: the traffic becomes a client log for [chapter
# 12](12-reading-your-broker.ipynb) and the workload behind it. For thirty people in a room: `--host 0.0.0.0
# --password …`, the picture's *full screen*. `--faults` cuts a client's connection and counts its losses,
# `--brake silence,credit,reject` measures it under the brakes of other brokers, and `--baseline` keeps it
# as good as it is in your build: [the bench](reference/check-client.md).
#
# ## Fourteen surprises
#
# All of them were recorded with the real broker. Here they happen on the engine, with clients in which
# nothing happens by itself: `broker.client(name)` sends, waits, gives credit and settles only when it is
# called. `round_trip()` makes sure that the broker's answers have arrived. The code of each is closed, as
# it holds the answer: guess, run it, then open it.
#
# ### 1. Flow control without credit
#
# Predict: how much credit has a client that has sent 30 messages to a queue that stops above 10?

# %% id="s01" jupyter={"source_hidden": true}
STOPS = "orders --flow-stop-count=10 --flow-resume-count=5"

with qf.serve(STOPS) as broker:
    shop = broker.client("shop")
    out = shop.sender("orders")
    for number in range(30):
        out.send(number)
    shop.round_trip()
    credit = out.credit
    print("accepted:", out.count("accepted"), " no outcome yet:", out.count(), " credit:", credit)
    shop.close()

assert (out.count("accepted"), out.count(), credit) == (10, 20, 500)

# %% [markdown] id="s02-text"
# On the protocol of credit, this broker gives credit for ever and brakes by silence (LNK-01, LNK-02). A
# client stops only if it bounds the transfers that have no outcome yet, by itself.
#
# ### 2. The documented pattern never brakes
#
# *Send while there is credit* is what Proton's documentation shows. Predict: 600 messages, room for 30, the
# policy is `reject`. How many exceptions?


# %% id="s02" jupyter={"source_hidden": true}
class Shop(MessagingHandler):
    def __init__(self, url):
        super().__init__()
        self.url, self.sent, self.settled, self.exceptions = url, 0, 0, 0

    def on_start(self, event):
        event.container.create_sender(f"{self.url}/orders")

    def on_sendable(self, event):
        while event.sender.credit and self.sent < 600:
            event.sender.send(Message(body="x"))
            self.sent += 1

    def on_settled(self, event):
        self.settled += 1
        if self.settled == 600 - 20:  # 20 are held, and will be for ever
            event.connection.close()

    def on_transport_error(self, event):
        self.exceptions += 1


with qf.serve(f"{STOPS} --max-queue-count=30 --limit-policy=reject") as broker:
    documented = Shop(broker.url)
    Container(documented).run()
    released = broker.broker.queue("orders").statistics().discardsOverflow
    print("sent:", documented.sent, " exceptions:", documented.exceptions, " lost:", released)

assert (documented.sent, documented.exceptions, released) == (600, 0, 570)

# %% [markdown] id="s03-text"
# 570 messages are gone without a word. A program that writes `on_released` hears of each; the pattern does
# not have it (LNK-05).
#
# ### 3. "Timeout" is not "not sent"
#
# The queue is ON. `send` gives up after a tenth of a second, three times. Predict: how deep is the queue
# afterwards, if it had 11 messages before?

# %% id="s03" jupyter={"source_hidden": true}
with qf.serve(STOPS) as broker:
    patient = BlockingConnection(broker.url, timeout=10)
    sender = patient.create_sender("orders")
    for number in range(10):
        sender.send(Message(body=number))
    for _ in range(3):
        try:
            sender.send(Message(body="again"), timeout=0.1)
        except Timeout:
            print("timed out; on the queue:", broker.broker.queue("orders").message_depth)
    depth = broker.broker.queue("orders").message_depth
    patient.close()

assert depth == 13

# %% [markdown] id="s04-text"
# Each retry adds one. A program that sends again after a time-out makes duplicates, and makes the stopped
# queue deeper.
#
# ### 4. `released` overtakes, and may be untrue for others
#
# Stop 2, limit 4, six messages. Then a fanout exchange with a wide queue and one that has room for one
# message. Predict: which outcomes come, and where are the messages?

# %% id="s04" jupyter={"source_hidden": true}
with qf.serve(
    "orders --flow-stop-count=2 --flow-resume-count=1 --max-queue-count=4 --limit-policy=reject",
    "wide",
    "narrow --flow-stop-count=0 --max-queue-count=1 --limit-policy=reject",
) as broker:
    shop = broker.client("shop")
    out = shop.sender("orders")
    for number in range(6):
        out.send(number)
    shop.round_trip()
    print(out.outcomes())

    for queue in ("wide", "narrow"):
        broker.broker.management.create("binding", f"amq.fanout/{queue}/", {})
    fanout = shop.sender("amq.fanout")
    fanout.send("first")
    fanout.send("second")
    shop.round_trip()
    depths = [broker.broker.queue(queue).message_depth for queue in ("wide", "narrow")]
    print(fanout.outcomes(), "wide and narrow:", depths)
    shop.close()

assert out.outcomes()[2:] == ["no outcome yet", "no outcome yet", "released", "released"]
assert fanout.outcomes() == ["accepted", "released"] and depths == [2, 1]

# %% [markdown] id="s05-text"
# The third and fourth still wait while the fifth and sixth have their answer. And the fanout's `released`
# was delivered to every other queue: sending it again duplicates it there.
#
# ### 5. rhea stops at S + 2,048
#
# The library rhea (JavaScript) stops after 2,048 transfers without an outcome, as its sessions keep them
# in an array of that size. Recorded with the real broker, stop 10, 6,000 messages:
#
# | client | on the queue when all is still | with a limit of 30 |
# |---|---|---|
# | rhea, `while (sender.sendable())` | 2,058 | 2,018 released at first, then it stops |
# | rhea, counts to 50 | 60 | runs to 2,048 as above |
# | rhea, settled when sent | all that it wrote | the rest vanishes |
#
# With Node and `npm install rhea` you can see it: `qflow check-client -- node
# data/clients/rhea_sender.js credit`. Here a client of Proton, which has no such array, keeps to
# its size.

# %% id="s05" jupyter={"source_hidden": true}
with qf.serve(STOPS) as broker:
    shop = broker.client("shop")
    out = shop.sender("orders")
    while out.count() < 2_048:
        for _ in range(min(100, 2_048 - out.count())):
            out.send("x")
        shop.round_trip()
    depth = broker.broker.queue("orders").message_depth
    print("on the queue:", depth)
    shop.close()

assert depth == 10 + 2_048

# %% [markdown] id="s06-text"
# Neither a setting nor the broker's credit has stopped it, but the size of an array.
#
# ### 6. The same program leaves 50 or 60
#
# A client with window W that waits for outcomes one by one leaves S + W messages on a stopped queue.
# Predict for W = 50, S = 10.

# %% id="s06" jupyter={"source_hidden": true}
with qf.serve(STOPS) as broker:
    shop = broker.client("shop")
    out = shop.sender("orders")
    while out.count() < 50:
        out.send("x")
        shop.round_trip()
    depth = broker.broker.queue("orders").message_depth
    print("on the queue:", depth)
    shop.close()

assert depth == 60

# %% [markdown] id="s07-text"
# `qpid-send --capacity 50` was recorded with 60 over AMQP 1.0 and **50** over 0-10, where it waits for
# the whole window when that is full for the first time. At the limit it dies over 0-10; over 1.0 it
# resends released messages at once, 65,000 times a second, for ever.
#
# ### 7. The same message weighs more, or less
#
# Thresholds in bytes count the whole encoded message of AMQP 1.0, and something else on 0-10. Predict the
# weight of a body of 100 characters.

# %% id="s07" jupyter={"source_hidden": true}
with qf.serve("orders") as broker:
    shop = broker.client("shop")
    out = shop.sender("orders")
    out.send("x" * 100)
    shop.round_trip()
    over_10 = broker.broker.queue("orders").statistics().byteDepth
    with broker.lock:
        old = broker.broker.session("old")
        old.message_transfer(qf.Message(100, routing_key="orders"))
    over_010 = broker.broker.queue("orders").statistics().byteDepth - over_10
    print("over 1.0:", over_10, " over 0-10:", over_010)
    shop.close()

assert (over_10, over_010) == (113, 116)

# %% [markdown] id="s08-text"
# Over 0-10 the delivery properties count, too. A message of `qpid-send` weighed 39 bytes over 1.0 and 71
# over 0-10. A threshold in bytes depends on who sends (LNK-04).
#
# ### 8. A transaction walks past flow control
#
# Twenty messages in one transaction, to a queue that stops above 10. Then twenty more, where there is
# room for ten. Predict both.

# %% id="s08" jupyter={"source_hidden": true}
with qf.serve(f"{STOPS} --max-queue-count=30 --limit-policy=reject") as broker:
    shop, other = broker.client("shop"), broker.client("other")
    for client in (shop, other):
        client.begin()
        out = client.sender("orders")
        for number in range(20):
            out.send(number)
        client.round_trip()
        accepted, outcome = out.count("accepted"), client.commit()
        print(client.name, "accepted before the commit:", accepted, " commit:", outcome)
    closed_for, depth = other.closed_for, broker.broker.queue("orders").message_depth
    print("on the queue:", depth, "|", closed_for)
    shop.close()

assert depth == 20 and outcome == "rejected" and "Transaction prepare failed" in closed_for

# %% [markdown] id="s09-text"
# A transaction is a way round flow control, and at the limit a way to lose the connection (LNK-21, LNK-23).
#
# ### 9. `group-id` is not used for groups
#
# The queue groups by `group`. Two messages of different groups, two receivers with credit for one each.
# Predict who gets something if the group is written in the standard property `group-id`.

# %% id="s09" jupyter={"source_hidden": true}
GROUPED = "qpid-config add queue jobs --group-header=group --shared-groups"


def two_groups(*messages):
    with qf.serve(GROUPED) as broker:
        shop, ann, bob = (broker.client(name) for name in ("shop", "ann", "bob"))
        out = shop.sender("jobs")
        for number, properties in enumerate(messages):
            out.send(f"message {number}", **properties)
        shop.round_trip()
        got = [client.receiver("jobs", credit=1).received() for client in (ann, bob)]
        for client in (shop, ann, bob):
            client.close()
    return got


by_id = two_groups({"group_id": "A"}, {"group_id": "B"})
by_property = two_groups({"properties": {"group": "A"}}, {"properties": {"group": "B"}})
print("group-id:            ", by_id)
print("application property:", by_property)

assert by_id == [["message 0"], []] and by_property == [["message 0"], ["message 1"]]

# %% [markdown] id="s10-text"
# Without the application property every message is of one group, `qpid.no-group`, which has one owner
# (MG-04).
#
# ### 10. The sleeping consumer is woken by a heartbeat
#
# Ann has the first message of group A. Bob waits, with credit. Ann accepts, and wants no more: the group is
# free. Predict: does Bob get the second message? When?

# %% id="s10" jupyter={"source_hidden": true}
with qf.serve(GROUPED) as broker:
    shop, ann, bob = (broker.client(name) for name in ("shop", "ann", "bob"))
    out = shop.sender("jobs")
    for number in (1, 2):
        out.send(f"A-{number}", properties={"group": "A"})
    shop.round_trip()
    at_ann, at_bob = ann.receiver("jobs", credit=1), bob.receiver("jobs", credit=1)
    at_ann.accept()
    bob.listen()
    silent = at_bob.received()
    bob.round_trip()  # any frame will do, the broker's own heartbeat too
    woken = at_bob.received()
    print("Bob, in silence:", silent, " after a frame of any kind:", woken)
    for client in (shop, ann, bob):
        client.close()

assert silent == [] and woken == ["A-2"]

# %% [markdown] id="s11-text"
# An accept that frees a group wakes no consumer (MG-13). But anything that moves on Bob's connection does
# (LNK-15).
#
# ### 11. An acknowledgement for each hundred locks two clients
#
# Stop 10, resume 5. The sender has a window of 20, the receiver accepts when it has 100 messages. Predict
# how many it has when nothing moves any more.

# %% id="s11" jupyter={"source_hidden": true}
with qf.serve(STOPS) as broker:
    shop, bill = broker.client("shop"), broker.client("bill")
    out, inbox = shop.sender("orders"), bill.receiver("orders", credit=1_000)
    while out.count() < 20:
        out.send("x")
        shop.round_trip()
    bill.round_trip()
    print("delivered:", len(inbox.received()), " waiting senders' transfers:", out.count())
    stuck = len(inbox.received())
    inbox.accept(stuck)  # what the receiver would do at 100
    shop.round_trip()
    print("after an accept:", out.count(), "wait")
    shop.close(), bill.close()

assert stuck == 30 and out.count() == 0

# %% [markdown] id="s12-text"
# Delivered messages count until they are accepted. `qpid-receive` acknowledges every hundredth message by
# default, and waited for ever on both protocols.
#
# ### 12. A topic subscription is at-most-once unless you ask
#
# Two subscriptions to `amq.topic`, the second asks for `unsettled` explicitly. Then a durable one, once
# with a connection that is lost, once with a `detach`. Predict which messages the broker has settled
# already, and which subscription survives.

# %% id="s12" jupyter={"source_hidden": true}
with qf.serve() as broker:
    bill, shop = broker.client("bill"), broker.client("shop")
    plain, asked = bill.receiver("amq.topic", 5), bill.receiver("amq.topic", 5, unsettled=True)
    out = shop.sender("amq.topic")
    out.send("news", subject="eu")
    shop.round_trip()
    bill.round_trip()
    settled = [plain.is_settled_already, asked.is_settled_already]
    print("settled by the broker:", settled)

    left = []
    for leave in ("lost", "detached"):
        diary = broker.client("diary")
        subscription = diary.receiver("amq.topic", durable=True)
        diary.drop() if leave == "lost" else subscription.detach()
        shop.round_trip()
        left.append("diary_from-amq.topic" in broker.snapshot()["queues"])
        print(f"the durable subscription is there after its connection is {leave}:", left[-1])
    for client in (bill, shop):
        client.close()

assert settled == [True, False] and left == [True, False]

# %% [markdown] id="s13-text"
# A message that is sent settled is lost when the receiver dies. And the verb that means *I come back*
# deletes the subscription (LNK-19).
#
# ### 13. Neither yes nor no
#
# Twelve messages, stop 10: two are held. The sender closes its link. Predict the outcome of the two.

# %% id="s13" jupyter={"source_hidden": true}
with qf.serve(STOPS) as broker:
    shop = broker.client("shop")
    out = shop.sender("orders")
    for number in range(12):
        out.send(number)
    shop.round_trip()
    out.close()
    depth = broker.broker.queue("orders").message_depth
    print("the last two:", out.outcomes()[10:], " on the queue:", depth)
    shop.close()

assert set(out.outcomes()[10:]) == {"settled without a state"} and depth == 12

# %% [markdown] id="s14-text"
# Both messages are on the queue, and no outcome says so (LNK-07).
#
# ### 14. ON is not standstill
#
# Three senders of window 5, stop 10, resume 5, a receiver that accepts one message at a time, 100 messages.
# Predict: how often does the queue turn ON, and how often OFF before the end?

# %% id="s14" jupyter={"source_hidden": true}
with qf.serve(STOPS) as broker:
    shops = [broker.client(f"shop-{number}") for number in range(3)]
    outs = [shop.sender("orders") for shop in shops]
    bill = broker.client("bill")
    inbox = bill.receiver("orders")
    for _ in range(100):
        for shop, out in zip(shops, outs, strict=True):
            shop.round_trip()
            while out.count() < 5:
                out.send("x")
                shop.round_trip()
        inbox.give_credit(1)
        inbox.accept()
    orders = broker.broker.queue("orders").statistics()
    print(
        "received:",
        len(inbox.received()),
        " turned ON:",
        orders.flowStoppedCount,
        " ON now:",
        orders.flowStopped,
    )
    for client in (*shops, bill):
        client.close()

assert len(inbox.received()) == 100 and orders.flowStoppedCount == 1 and orders.flowStopped

# %% [markdown] id="s15-text"
# Each message that leaves lets its own sender send the next, so the depth stays above resume: the queue is
# busy, ON for its whole life, and flows.
#
# ### 15. A browser that leaves doubles a message
#
# Two orders. A browser looks at both and settles nothing; then the packer receives both and packs. The
# browser closes its link. A helper has credit for five. Predict: how many orders does the helper get?

# %% id="s15" jupyter={"source_hidden": true}
with qf.serve("orders") as broker:
    shop, auditor = broker.client("shop"), broker.client("auditor")
    out = shop.sender("orders")
    for order in ("a lamp", "a chair"):
        out.send(order)
    shop.round_trip()
    looks = auditor.receiver("orders", 5, browse=True)
    packer, helper = broker.client("packer"), broker.client("helper")
    packs = packer.receiver("orders", 2)
    helps = helper.receiver("orders", 5)
    print("the packer holds", packs.received(), "and the helper gets", helps.received())
    looks.detach()
    helper.round_trip()
    twice = helps.received()
    print("after the browser has left, the helper gets", twice)
    packs.accept(2)
    helps.accept(2)
    with broker.lock:
        orders = broker.broker.queue("orders").statistics()
        trace = broker.trace()
    print(
        "acquired",
        orders.acquires,
        "times, released",
        orders.releases,
        "times, on the queue",
        orders.msgDepth,
    )
    for client in (shop, auditor, packer, helper):
        client.close()

assert twice == ["a lamp", "a chair"] and (orders.acquires, orders.releases, orders.msgDepth) == (4, 2, 0)

# %% [markdown] id="s15-why-text"
# Both packers packed both orders. Ask the engine why, at the moment when the helper had them:

# %% id="s15-why" jupyter={"source_hidden": true}
import re

row = max(place for place, kind in enumerate(trace.kind) if kind == "delivered")
why = qf.explain(trace, row, f"message:{trace.message[row]}").text(with_sources=False)
# Without the times, which are of this machine.
print(re.sub(r"\d+\.\d+ s", "… s", why))

assert "by the end of the browser" in why

# %% [markdown] id="answer-text"
# When a link ends, the broker makes its client's unsettled messages available again, and does not ask
# whether the link had acquired them: a message that the browser saw and another client holds can be
# delivered a second time (RF-51). Let a browser settle the messages it has seen, or let it live as long
# as the consumers.
#
# ## Back to the question
#
# None. Credit plays no part: a sender stops if it bounds its unsettled transfers, and only then.
#
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
predictions.compare(credit=credit, lost=documented.exceptions, timeout=3)

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - The broker brakes AMQP 1.0 clients by **withholding outcomes**. Whether a client stops is its own affair.
# - At a limit, transfers are **released**. A client that does not look at outcomes loses them without a word.
# - `qflow check-client` says in six lines what your client does; hold it to that in your build. The cure is a
#   window, and resending messages that were not accepted.
# - A receiver that settles in **batches above the stop threshold** can lock itself and the sender.
#
# ## Where next
#
# - [What `qflow serve` serves](reference/serve.md), [the bench for clients](reference/check-client.md),
#   [recording real clients](reference/recording.md).
# - [12 · Reading your own broker](12-reading-your-broker.ipynb): what to do with your recording.
# - Next: [16 · Break it](16-break-it.ipynb), ten challenges with the engine as judge.
