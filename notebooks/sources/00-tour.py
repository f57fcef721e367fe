# %% [markdown] id="title"
# # 0 · A tour in ten minutes
#
# Run the cell below with Shift+Enter (again, if only the blue frame moved): seven scenes follow a shop's
# orders, which arrive too fast, through a broker. Then the lab is yours.

# %% id="lab"
import qflow as qf

settings = {"stop": 40, "resume": 10, "limit": 60, "capacity": 10, "prefetch": 4}
tour = qf.flow_lab(**settings, rate=100, service=0.04, messages=220)
tour.tell()

# %% [markdown] id="words-text"
# ## What you see, in a few words
#
# A **broker** is a program that keeps messages for others. A **producer** (left) sends a message to a
# **queue** (middle) on the broker; a **consumer** (right) takes it off, and **accepts** it when it is
# done with it. The broker, in turn, tells the producer when it has processed each message: that is the
# **completion**. Most of this book is about that last word.
#
# The command that sends a message is a **transfer**. How many messages a consumer may hold before it accepts
# the first is its **prefetch**.
#
# Messages always get through. Completions go back through the gate, and above the queue's **stop
# threshold** the gate is closed: that is **flow control**, ON. A producer allows itself a fixed number of
# unanswered messages, its **capacity**: the cells of its **window**. When all are filled, it stops by itself.
# Below the **resume threshold** the gate opens, and all held completions go through at once. No session dies,
# nothing is lost.
#
# Drag the **stop** line on the tank: wherever you hold it, the engine computes a new run. **Chapter 1** takes
# this apart, **2** counts bytes as well, **3** looks at the completions.
#
# The same run as a chart: flow control was ON in the hatched bands.

# %% id="time"
qf.depth_chart(tour.first)

# %% [markdown] id="naive-text"
# ## Without flow control
#
# For one hour, orders come in faster than they can be packed. The queue below holds 10 messages and has
# no flow control. The eleventh order is refused, and the producer is thrown out. These are the broker's
# words:

# %% id="naive"
print(qf.flow_run(stop=0, resume=0, limit=10).run.errors["p1"])

# %% [markdown] id="predict-text"
# ## Your turn: guess one number
#
# A queue small enough to count makes producers wait above 8 messages. Its producer has a capacity of 3. Guess
# before you go on.

# %% id="predict" jupyter={"source_hidden": true}
predictions = qf.Predictions("00-tour")
predictions.ask()

# %% [markdown] id="flow-text"
# Play it slowly, and count the marks behind the gate.

# %% id="flow"
small = qf.flow_lab(stop=8, resume=5, limit=12, capacity=3, prefetch=2, rate=60, service=0.05, messages=120)
small

# %% id="compare" jupyter={"source_hidden": true}
predictions.compare(depth=max(small.first.frames.column("queue.orders.depth")))

# %% [markdown] id="flow-then"
# ## Why?
#
# Click anything in a lab (a waiting producer, a held completion, a lock) and choose *why?*. The engine
# answers with a chain of causes from its own record of the run. Here it explains why the producer of the
# small queue had to wait for the first time. **Chapter 12** asks the same of the logs of your own broker.

# %% id="why"
waits = small.first.frames.spans("producer.p1.blocked")
answer = qf.explain(qf.trace_of(small.first.run), subject="producer:p1", time=waits[0][0])
print(answer.text(with_sources=False))

# %% [markdown] id="law-text"
# The answer is the stop threshold plus the capacity. **Chapter 4** proves it.

# %% [markdown] id="groups-text"
# ## Keeping the order: groups
#
# Several consumers share a queue, and messages of the same **group** must not overtake each other: *add
# to cart*, *remove from cart*. A group belongs to one consumer at a time. Here two messages of cart A
# stand in front of one message of cart B. The second consumer skips the rest of cart A and gets cart B;
# the locks show the owners. Click the message at `c1`, accept it, and see who may have the next one.
# **Chapters 5 and 6.**

# %% id="groups"
qf.group_lab(messages="AAB", prefetch=(1, 1), paces=()).play()

# %% [markdown] id="config-text"
# ## Setting it up
#
# You do not have to invent the numbers. The broker has defaults, and `explain` tells you what a queue
# will actually do, and why. **Chapter 7** shows every way to write a setting, and those that the broker
# refuses.

# %% id="config"
print(qf.configuration.explain(qf.configuration.read_any("orders --max-queue-count=1000")).flow)

# %% [markdown] id="fanout-text"
# ## Three queues, one slow
#
# A message that goes to several queues is complete when all of them agree. So one slow subscriber makes
# all the others wait: **chapter 8**.

# %% id="fanout"
qf.fanout_lab()

# %% [markdown] id="real-text"
# ## Is that true?
#
# Everything in this book comes from a model, checked step by step against a real Apache Qpid C++ broker in
# hundreds of recorded scenarios. Here is one of them: the real broker's behaviour, beside the model's.
# If they differed anywhere, the table would say so.

# %% id="real"
recorded = qf.beside("fc-count-7-5", depth="queues.q.depth", ON="queues.q.flow", held="held.p")
recorded

# %% id="real-check" jupyter={"source_hidden": true}
assert recorded.agrees

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - Flow control does not refuse messages; it **holds completions**, and producers stop by themselves.
# - A queue can get as deep as its stop threshold plus the capacities of its producers.
# - A group of messages has **one owner at a time**; that keeps its order.
# - The model agrees with recordings of a real broker.
#
# ## Where next
#
# | you want to | go to |
# |---|---|
# | understand flow control from the beginning | [1 · Thresholds](01-thresholds.ipynb), then 2, 3, 4 |
# | process messages in order | [5 · Message groups](05-message-groups.ipynb) |
# | write consumers that behave | [6 · Well-behaved consumers](06-well-behaved-consumers.ipynb) |
# | configure queues | [7 · Configuration](07-configuration.ipynb) |
# | know why a fast service waits | [8 · Several queues](08-several-queues.ipynb) |
# | use rings, last values, priorities | [9 · Other queues](09-other-queues.ipynb) |
# | know why it was built like this | [10 · How it was designed](10-how-it-was-designed.ipynb) |
# | find mistakes in the manual | [11 · Errata](11-errata.ipynb) |
# | look at your own broker | [12 · Reading your own broker](12-reading-your-broker.ipynb) |
# | run all this over the logs of many queues | [13 · Spark](13-spark.ipynb) |
# | look into the engine | [14 · Under the hood](14-under-the-hood.ipynb) |
# | point your own clients at it | [15 · Your own clients](15-your-own-clients.ipynb) |
# | break it on purpose, in as few moves as you can | [16 · Break it](16-break-it.ipynb) |
# | know what else delays a completion | [17 · More about completions](17-more-about-completions.ipynb) |
#
# Or follow a path: [45 minutes](91-path-45-minutes.ipynb), [90 minutes](96-path-90-minutes.ipynb),
# [half a day](92-path-half-day.ipynb),
# [a day](93-path-full-day.ipynb), [I run brokers](94-path-i-run-brokers.ipynb),
# [I write consumers](95-path-i-write-consumers.ipynb).
