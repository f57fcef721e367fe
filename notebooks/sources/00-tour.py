# %% [markdown] id="title"
# # 0 · A tour in ten minutes
#
# *10 minutes. You need to know nothing about message brokers. Run the cells from top to bottom with
# Shift+Enter; or read on, all results are here already.*
#
# At the end of this tour you have
#
# - seen a queue that makes its producers wait, and a group of messages that keeps its order;
# - compared the model with what a real broker did;
# - found the chapter that answers *your* question.
#
# **A question to begin with.** A shop sends orders to a queue, a warehouse takes them off. For an hour more
# orders come in than the warehouse can pack. What are the ways in which this can end?

# %% [markdown] id="words-text"
# ## Five words
#
# A **broker** is a program that keeps messages for others. A **producer** sends a message to a **queue** on
# the broker; a **consumer** takes it off. The consumer **accepts** a message when it is done with it. And the
# producer, for its part, hears from the broker when it has processed what it sent: that is the
# **completion**. Most of this book is about that last word.
#
# Guess one number before you go on; you will find out in two minutes.

# %% id="predict"
import qflow as qf

predictions = qf.Predictions("00-tour")
predictions.predict(
    "depth",
    "A queue makes producers wait above 8 messages. A producer that may have 3 unanswered ones sends on. "
    "How many messages are on the queue in the end?",
    guess=None,
    revisit="the stop threshold plus the producer's capacity: chapters 1 and 4",
    because={8: "the 8 are answered; then the producer still has its 3", 9: "only one of its 3 is used then"},
)

# %% [markdown] id="naive-text"
# ## One way to end: the queue is full
#
# The queue below holds 10 messages and has no flow control. The eleventh order is refused, and the producer
# is thrown out.

# %% id="naive"
broker = qf.Broker()
shop = broker.session("shop")
shop.queue_declare("orders", {"qpid.max_count": 10, "qpid.flow_stop_count": 0, "qpid.flow_stop_size": 0})
try:
    qf.send(shop, "orders", 11)
except qf.AmqpException as error:
    refusal = error

print(refusal)

assert refusal.code == 506 and not shop.is_attached

# %% [markdown] id="flow-text"
# ## A better way: the producer waits
#
# With **flow control** the queue still takes every message, but above its **stop threshold** it holds back
# the completions. A producer allows itself only so many unanswered messages, its **capacity**. So it stops by
# itself. Below the **resume threshold** all completions are released.

# %% id="flow"
broker = qf.Broker()
shop = broker.session("shop")
shop.queue_declare("orders", {"qpid.max_count": 12, "qpid.flow_stop_count": 8, "qpid.flow_resume_count": 5})
diary = qf.Diary.of_queue(broker, "orders", shop, caption="a producer with a capacity of 3")

qf.send(shop, "orders", 8)
diary.note("8 sent")
while len(shop.held) < 3:
    qf.send(shop, "orders")
    diary.note("one more")
depth = broker.queue("orders").statistics().msgDepth
warehouse = qf.Reader(broker, "warehouse", "orders")
warehouse.take(6)
diary.note("6 taken off")
warehouse.take(1)
diary.note("7 taken off")

assert diary.column("messages") == [8, 9, 10, 11, 5, 4]
assert diary.column("flow control") == ["OFF", "ON", "ON", "ON", "ON", "OFF"]
assert diary.column("held") == [0, 1, 2, 3, 3, 0]
diary

# %% [markdown] id="flow-then"
# Eight, and the three the producer was still allowed: eleven. No session died, nothing was lost.
# **Chapter 1** takes this apart, **2** counts bytes as well, **3** looks at the completions, **4** derives
# the eleven.

# %% [markdown] id="time-text"
# ## The same over time
#
# Two thousand orders in bursts, a warehouse that packs steadily. The hatched bands are the times when flow
# control was ON. It turns ON above 900 messages and OFF below 500; the depth never exceeds
# 1,000, the stop threshold plus the producer's capacity of 100.

# %% id="time"
picture = qf.flow_run()
qf.depth_chart(picture)

# %% id="time-words"
print(*picture.claims[:3], sep="\n")

assert max(picture.frames.column("queue.orders.depth")) <= 1000
assert not picture.run.errors

# %% [markdown] id="lab-text"
# In **chapter 1** this picture moves: you drag the thresholds, go forwards and back in time, and watch each
# message. ![The lab of chapter 1: the producer's window, the queue with its thresholds, the consumer, and the
# depth over time](images/flow-lab.png)

# %% [markdown] id="config-text"
# ## Setting it up
#
# You need not invent the numbers. The broker has defaults, and `explain` says what a queue will really do,
# and why. **Chapter 5** is about all the ways to say it, and the ones that are refused.

# %% id="config"
explained = qf.configuration.explain(qf.configuration.read_any("orders --max-queue-count=1000"))
print(explained.flow)
print(explained.address)

assert "above 800 messages" in explained.flow

# %% [markdown] id="fanout-text"
# ## Two queues, one slow
#
# A message that goes to two queues is complete when both agree. So one slow subscriber makes everybody wait:
# **chapter 6**.

# %% id="fanout"
broker = qf.Broker()
admin = broker.session("admin")
for queue, stop in (("slow", 1), ("fast", 100)):
    admin.queue_declare(queue, {"qpid.flow_stop_count": stop})
    admin.exchange_bind(queue, "amq.fanout")
news = broker.session("news")
transfers = qf.send(news, "", 3, exchange="amq.fanout")
print("held by:", [transfer.held_by for transfer in transfers])

assert [transfer.held_by for transfer in transfers] == [(), ("slow",), ("slow",)]

# %% [markdown] id="groups-text"
# ## Keeping the order: groups
#
# Several consumers share a queue, and messages of the same **group** must not overtake each other: *add to
# cart*, *remove from cart*. A group belongs to one consumer at a time. Here the second consumer skips the
# rest of cart A and gets cart B. **Chapters 7 and 8.**

# %% id="groups"
broker = qf.Broker()
shop = broker.session("shop")
shop.queue_declare("carts", {"qpid.group_header_key": "cart", "qpid.shared_msg_group": 1})
qf.send(shop, "carts", "A-add A-remove B-add", header="cart")
first, second = qf.Reader(broker, "first", "carts"), qf.Reader(broker, "second", "carts")
print("first gets ", first.fetch())
print("second gets", second.fetch())

assert (first.holds, second.holds) == (["A-add"], ["B-add"])

# %% [markdown] id="real-text"
# ## Is that true?
#
# Everything you see in this book was made by a model. It was checked against a real Apache Qpid C++ broker,
# step by step, in hundreds of recorded scenarios that come with the book. Here is one of them: what the real
# broker did, and what the model does. If the two differed anywhere, the table would say so.

# %% id="real"
recorded = qf.beside("fc-doc-900-500", depth="queues.q.depth", ON="queues.q.flow", held="held.p")
print(len(qf.scenarios()), "recorded scenarios come with the book")

assert recorded.agrees
recorded

# %% [markdown] id="why-text"
# ## And when it is your own broker?
#
# A client's log, which anybody can write, is enough to replay what happened, to ask *why*, and to ask *what
# if*. Here the engine explains a producer that is blocked. **Chapter 12** does it with recordings of real
# clients.

# %% id="why"
stalled = qf.Workload(
    "stalled",
    duration=1,
    queues={"orders": {"qpid.flow_stop_count": 8, "qpid.flow_resume_count": 5}},
    producers=(qf.Producer("shop", ("", "orders"), rate=100, capacity=3, size=100, arrival="const"),),
)
answer = qf.explain(qf.trace_of(qf.simulate(stalled)), subject="producer:shop", time=1_000_000)
print(answer.text(with_sources=False))

assert "is blocked" in answer.links[0].text

# %% [markdown] id="compare-text"
# ## Your prediction

# %% id="compare"
predictions.compare(depth=depth)

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - Flow control does not refuse messages; it **holds completions**, and producers stop by themselves.
# - A queue can get as deep as its stop threshold plus the capacities of its producers.
# - A group of messages has **one owner at a time**; that keeps its order.
# - The model agrees with recordings of a real broker.
#
# ## Links on
#
# | you want to | go to |
# |---|---|
# | understand flow control from the beginning | [1 · Thresholds](01-thresholds.ipynb), then 2, 3, 4 |
# | configure queues | [5 · Configuration](05-configuration.ipynb) |
# | know why a fast service waits | [6 · Several queues](06-several-queues.ipynb) |
# | process messages in order | [7 · Message groups](07-message-groups.ipynb) |
# | write consumers that behave | [8 · Well-behaved consumers](08-well-behaved-consumers.ipynb) |
# | use rings, last values, priorities | [9 · Other queues](09-other-queues.ipynb) |
# | know why it was built like this | [10 · How it was designed](10-how-it-was-designed.ipynb) |
# | find mistakes in the manual | [11 · Errata](11-errata.ipynb) |
# | look at your own broker | [12 · Reading your own broker](12-reading-your-broker.ipynb) |
# | run all this over the logs of many queues | [13 · Spark](13-spark.ipynb) |
# | look into the engine | [14 · Under the hood](14-under-the-hood.ipynb) |
#
# Or follow a path: [45 minutes](91-path-45-minutes.ipynb), [half a day](92-path-half-day.ipynb),
# [a day](93-path-full-day.ipynb), [I run brokers](94-path-i-run-brokers.ipynb),
# [I write consumers](95-path-i-write-consumers.ipynb).
