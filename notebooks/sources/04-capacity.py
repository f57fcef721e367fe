# %% [markdown] id="title"
# # 4 · Capacity: from 101 to 165
#
# *30 minutes. Chapter 1 first, chapter 3 helps. Run the cells from top to bottom with Shift+Enter.*
#
# **A question to begin with.** The manual of the broker gives this example: two clients with capacities of 50
# and 15 send to a queue that stops at 100. "Worst-case, the queue may receive up to 165 messages." Flow
# control turns ON at message 101. Where do the other 64 come from?

# %% [markdown] id="predict-text"
# ## Predict before you run

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("04-capacity")
predictions.ask("one", "again")

# %% [markdown] id="two-text"
# And one more question, this time in the picture. Drag the mark on the tank, or type the number, and
# press *go*.

# %% id="two" jupyter={"source_hidden": true}
small = {"capacity_1": 3, "capacity_2": 2, "stop": 2, "resume": 1, "limit": 12}
predictions.ask("two", lab=qf.capacity_lab(**small, rate=5, messages=40))

# %% [markdown] id="lab-text"
# ## Watch it
#
# The manual's two clients. They are alone until a consumer arrives after 2.5 seconds: by then both are
# blocked. Drag a client's window at its edge, and the lines on the tank. Try this:
#
# 1. Leave everything as it is, and find the instant at 165. Which messages are the 65 held ones?
# 2. The limit is 180. Drag C1's window to 65, then to 66. What happens to a client?
# 3. Lower the resume threshold. How does the number of times that flow control turns ON change?

# %% id="lab"
lab = qf.capacity_lab()
lab.play()

# %% [markdown] id="prose-text"
# The same in one sentence. Drag a number; the brackets at the tank add up to the sum.

# %% id="prose" jupyter={"source_hidden": true}
lab.prose(
    "[orders](queue:orders) turns ON above {stop}. [C1](producer:C1) may then still have {capacity_1} "
    "transfers outstanding, and [C2](producer:C2) {capacity_2}. The limit is {limit}."
)

# %% [markdown] id="objectives"
# At the end of this chapter you can
#
# - say how deep a queue can get although its producers are stopped;
# - derive the law behind it from a handful of small experiments, and say why it is true;
# - choose a stop threshold that leaves enough room for all producers;
# - explain why real clients often stop earlier, and why you must not count on it.

# %% [markdown] id="naive-text"
# ## The naive way: the stop threshold is where it stops
#
# A queue for 10 messages. By default it stops above 8, so there seem to be two free places. One producer
# with a capacity of 3 sends as long as its window has room:

# %% id="naive"
broker = qf.Broker()
producer = broker.session("producer")
producer.queue_declare("orders", {"qpid.max_count": 10})
try:
    while len(producer.held) < 3:
        qf.send(producer, "orders")
except qf.AmqpException as error:
    print(f"flow control ON: {broker.queue('orders').statistics().flowStopped}\n{error}")
assert not producer.is_attached and broker.queue("orders").statistics().flowStopped

# %% [markdown] id="naive-then"
# The producer was thrown out **while flow control was ON**. The broker did all it could: it withheld the
# completions of messages 9 and 10. The producer was still allowed one more, because its window had room.
#
# That is the first "known issue" in the proposal of 2010: "If the producer's capacity level is too high for
# a given queue […] the queue will overflow regardless of this solution."

# %% [markdown] id="discover-text"
# ## Discover the law
#
# An unknown law is found by many small experiments. Each row of the table is a stop threshold, each column
# the capacities of two clients, and each number how deep the queue got.


# %% id="discover"
def deepest(stop, one, two):
    settings = {"stop": stop, "resume": 1, "limit": 0, "capacity_1": one, "capacity_2": two}
    return max(qf.capacity_run(**settings, messages=60).frames.column("queue.orders.depth"))


SETS = [(1, 1), (2, 1), (2, 3), (3, 2), (5, 2)]
depths = {(stop, pair): deepest(stop, *pair) for stop in (1, 2, 5, 10) for pair in SETS}

rows = [[stop, *(depths[stop, pair] for pair in SETS)] for stop in (1, 2, 5, 10)]
qf.Table(rows, ["stop threshold", *(f"{one} and {two}" for one, two in SETS)], "deepest, by capacities")

# %% id="discover-check" jupyter={"source_hidden": true}
assert all(depth == stop + sum(pair) for (stop, pair), depth in depths.items())

# %% [markdown] id="law-text"
# Look down a column: if the stop threshold is higher by one, the depth is higher by one. Look along a row:
# only the **sum** of the capacities matters. Only one formula fits:
#
# > **depth at the stall = stop + sum of the capacities**
#
# The message that turns flow control ON is already the first of the held ones. That is why it is
# 100 + 50 + 15 and not 101 + 65, and where the 64 of the question come from: 65 held messages, one of which
# is the 101st.

# %% [markdown] id="prove-text"
# ## Prove it
#
# 20 experiments are not a proof. In all of them the clients sent at the same moments. Here is the argument,
# in three sentences:
#
# 1. A message on a queue that is ON came either before it turned ON, or since.
# 2. Those that came before are at most *stop*: with one more it would have been ON already. Their number
#    cannot grow.
# 3. Those that came since are held, each one fills a place in its producer's window as long as it is on
#    the queue, and the number of places is fixed.
#
# So the depth is never more than *stop* plus the sum of the capacities, whatever the clients do, and in
# whatever order. And now a proof by computer, for small cases: `explore` starts the engine and visits
# **every** state that producers and a consumer can bring about, in every order.

# %% id="prove"
found = []
for stop, resume, capacities in ((1, 1, (1,)), (2, 1, (2, 1)), (3, 2, (2, 2)), (4, 2, (3, 1, 1))):
    small = qf.design.SmallConfiguration.of(stop=stop, resume=resume, capacities=capacities)
    states = qf.design.explore(small)
    found.append((stop, resume, capacities, len(states.graph), states.maximum_depth, stop + sum(capacities)))

qf.Table(found, ("stop", "resume", "capacities", "states", "deepest", "formula"), "with a consumer reading")

# %% id="prove-check" jupyter={"source_hidden": true}
assert all(most == formula for *_, most, formula in found)

# %% [markdown] id="rule-text"
# ### The sizing rule
#
# A queue cannot overflow if
#
# > **stop + sum of the capacities ≤ limit**
#
# Exactly full is allowed. Here are the lab's two clients, on both sides of its limit of 180:

# %% id="rule"
for capacity in (65, 66):
    run = qf.capacity_run(capacity_1=capacity)
    print(f"C1 {capacity}, C2 15:", *run.claims[:2], sep="\n- ")
    assert bool(run.run.errors) == (100 + capacity + 15 > 180)

# %% [markdown] id="states-lab-text"
# ### The lab: every state as a picture
#
# Each dot is a state, each line one action of a client. Click a dot, and the queue beside it goes there by
# the shortest route. The claims below the picture say how many states there are, and which is the deepest.

# %% id="states-lab"
qf.state_space_lab(stop=2, resume=1, capacity_1=2, capacity_2=1)

# %% [markdown] id="manual-text"
# ## The manual's example, by hand
#
# What the lab plays, step by step: two clients, and a reader that arrives later. C1 has sent 100 messages,
# all complete. Then it fills its window of 50, and C2 fills its window of 15. The resume threshold is left at
# 100, which means: OFF at 99.

# %% id="manual"
broker = qf.Broker()
broker.session("admin").queue_declare("q", {"qpid.flow_stop_count": 100})
c1, c2 = (broker.session(name) for name in ("C1", "C2"))
diary = qf.Diary.of_queue(broker, "q", c1, c2, caption="capacities 50 and 15, stop threshold 100")
for client, count, note in ((c1, 100, "100 before"), (c1, 50, "C1 fills"), (c2, 15, "C2 fills")):
    qf.send(client, "q", count)
    diary.note(note)
reader = qf.Reader(broker, "reader", "q")
for count, note in ((65, "65 are read"), (1, "one more")):
    reader.take(count)
    diary.note(note)
qf.send(c1, "q", 51)  # the first of them is complete at once
qf.send(c2, "q", 15)
diary.note("both fill again")

diary

# %% id="manual-check" jupyter={"source_hidden": true}
assert diary.column("messages") == [100, 150, 165, 100, 99, 165]

# %% [markdown] id="manual-then"
# Note two things. The first 65 messages that were read freed **no producer**: they were the old ones, which
# were not held. And as soon as the queue is OFF, all 65 completions come back at once, and the queue returns
# to its worst case. With these thresholds the worst case is not rare: the queue is near it most of the time.

# %% [markdown] id="held-chart-text"
# The held completions of the two over time. Whatever happens, no line rises above its window, and together
# they never exceed 65: the part of the queue above the stop threshold.

# %% id="held-chart"
qf.held_chart(qf.capacity_run())

# %% [markdown] id="map-text"
# ## The map
#
# The lab shows one run. Its map shows all the neighbours: each cell is a run with the column's stop threshold
# and the row's capacity for C1, everything else as in the lab. The black line is the law, and needs no run:
# to its left, stop + capacities is within the limit. Point at a cell to see its run; click it, and the lab
# below takes its values. Move the lab's limit, and every run is computed anew.

# %% id="map"
from IPython.display import display

display(lab.map(), lab)

# %% [markdown] id="surprise-text"
# ## The surprise: real clients often stop earlier
#
# Try the example with a freshly started C++ client, and you will see many numbers, but seldom 165. Real
# clients do not know at every moment which transfers are complete. They ask now and then, and count each as
# outstanding until they *hear* of its completion. So windows are partly filled with messages that completed
# long ago. *(CAP-02, CAP-07)*
#
# The engine has models of three windows: the ideal one of this chapter, that of the C++ client `qpid-cpp`,
# and that of `qpid-python`. One sender, a stop threshold of 10, sending as fast as it can:


# %% id="surprise"
def stall_of_clients(window, capacities, stop, seed=0):
    producers = [
        qf.Producer(f"C{n}", ("", "q"), 20_000, size, size=100, seed=10 * seed + n, window=window)
        for n, size in enumerate(capacities, 1)
    ]
    queues = {"q": {"qpid.flow_stop_count": stop}}
    run = qf.simulate(qf.Workload("stall", 1, queues, producers=tuple(producers)))
    return sum(event.kind == "enqueued" for event in run.events)


WINDOWS = ("ideal", "qpid-cpp", "qpid-python")
single = [[size, *(stall_of_clients(w, (size,), 10) for w in WINDOWS)] for size in (1, 2, 3, 10, 50)]

qf.Table(single, ("capacity", *WINDOWS), "one sender, stop threshold 10")

# %% id="surprise-check" jupyter={"source_hidden": true}
assert [row[2] for row in single[:3]] == [11, 12, 12]  # as measured with the real client

# %% [markdown] id="surprise-two-text"
# With capacities of 1, 2 and 3 the real C++ client stalls at 11, 12 and 12. So does its model. And the
# manual's two clients? Twenty runs, which differ only in the moments at which the clients send:

# %% id="surprise-two"
fresh = {w: sorted(stall_of_clients(w, (50, 15), 100, seed) for seed in range(20)) for w in WINDOWS}

rows = [(window, runs[0], runs[len(runs) // 2], runs[-1]) for window, runs in fresh.items()]
qf.Table(rows, ("window", "lowest", "middle", "highest"), "depth in 20 fresh runs, capacities 50 and 15")

# %% id="surprise-two-check" jupyter={"source_hidden": true}
assert set(fresh["ideal"]) == {165} and fresh["qpid-cpp"][0] < 115 and fresh["qpid-cpp"][-1] == 165

# %% [markdown] id="surprise-then"
# With real C++ clients, depths from 115 to 165 were observed. So "up to 165" is right, and "165" would be
# wrong: the manual gives a bound, not a prediction. You still have to size for 165: a client that has just
# been released has heard of all its completions, and then its window really is empty.

# %% [markdown] id="real-text"
# ## What the real broker did
#
# The manual's example was recorded on a real broker, with producers that count exactly (their windows are
# ideal). The resume threshold was 90, so that 76 messages have to be read before flow control turns OFF.
# Then C1 sends its remaining 60 messages, and C2 fills its window: the depth is 164.

# %% id="real"
qf.beside("cap-doc-165-at-100", depth="queues.q.depth", ON="queues.q.flow", turned_ON="queues.q.flows")

# %% [markdown] id="clients-text"
# The same over time, with real clients: C1 and C2 start at 0 s, and a consumer joins after eight seconds.
# The engine was given the recorded sends and accepts; the dotted line is the real broker's own report.

# %% id="clients"
clients = qf.recorded_picture("capacity-165")
print(*clients.claims, sep="\n")
qf.depth_chart(clients)

# %% [markdown] id="overflow-text"
# The last recording breaks the sizing rule, in bytes: a stop threshold of 80,000 and a limit of 90,000 leave
# room for 10,000 bytes. The two windows, of 40 and of 20 messages, hold more than that.

# %% id="overflow"
qf.depth_chart(qf.recorded_picture("overflow-despite-flow-control"))

# %% [markdown] id="overflow-then"
# At 1.4 seconds flow control turned ON, and the room was just enough. The second time it was not: `p1` was
# thrown out with 506 while flow control was ON. From then on `p2` had the queue to itself, and it never
# filled again.

# %% [markdown] id="thread-text"
# ## In a program: a thread that waits
#
# A producer whose window is full does not fail, it waits: in the call `send`, until there is room. Let it
# wait in a thread of its own, and consume in this one. The queue stops above 4, the window is 2.
#
# `sleep` lets time pass in the broker. No other thread can do anything then: the producer waits as well.

# %% id="thread"
import threading

connection = qf.messaging.Connection.establish("threads.example")
queue = "orders; {create: always, node: {x-declare: {arguments: {'qpid.flow_stop_count': 4}}}}"
sender = connection.session().sender(queue, capacity=2, window="ideal")
sent = []


def produce():
    for order in range(1, 13):
        sender.send(f"order {order}", sync=False)
        sent.append(f"order {order}")


threading.Thread(target=produce).start()
qf.messaging.sleep(60, "threads.example")
print("sent before it waits:", len(sent), "of 12")

receiver, received = connection.session().receiver("orders"), []
while len(received) < 12:
    received.append(receiver.fetch(timeout=60).content)
    receiver.session.acknowledge()
print("received, as it goes on:", len(received), "in order:", received == sent)
assert received == sent and len(sent) == 12

# %% [markdown] id="thread-then"
# It sent stop + capacity, and waited. Each acknowledgement made the queue shorter; when flow control turned
# OFF, the thread went on by itself. No message was lost, none came twice, and the program has no line that
# handles flow control. If the consumer stopped too, both would wait for each other: for threads on one
# broker the kit recognises this, and the last thread to wait gets an error that says so.

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
one = qf.design.explore(qf.design.SmallConfiguration.of(stop=2, resume=1, capacities=(3,))).maximum_depth
predictions.compare(one=one, two=depths[2, (3, 2)], again=diary.column("messages")[-1])

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - A queue can hold up to **stop + the sum of all capacities**. The message that turns it ON is the first of
#   the held ones. *(CAP-08)*
# - No overflow if stop + capacities ≤ limit. *(CAP-11)* Otherwise a producer can be thrown out with 506
#   although flow control is ON. *(FC-24)*
# - Reading messages that are not held frees no producer, until the queue turns OFF. Then all completions
#   come at once. *(FC-17)*
# - Real clients often stall lower, between stop + the number of senders and the bound. Size for the bound.
#   *(CAP-02, CAP-07, CAP-08)*
#
# ## Where next
#
# - The same in RabbitMQ, Artemis and Kafka: [If you know another broker](reference/other-brokers.md).
# - How to set thresholds and limits: [7 · Configuration](07-configuration.ipynb).
# - Sizing your own queues from a log: [12 · Reading your own broker](12-reading-your-broker.ipynb).
# - In code: `qflow/client_windows.py` holds the three windows, `qflow/design/explore.py` visits the
#   states.

# %% [markdown] id="exercises"
# ## Exercises
#
# [Exercises 4 · Capacity](../exercises/04-capacity.ipynb), 30 minutes: how deep a queue gets, what happens
# after all producers were blocked, how a client of the C++ library differs, and when a producer is refused
# in spite of flow control. The next chapter is [5 · Message groups](05-message-groups.ipynb).
