# %% [markdown] id="title"
# # 1 · Thresholds
#
# *25 minutes. You need nothing but this notebook. Run the cells from top to bottom with Shift+Enter.*
#
# **A question to begin with.** A shop's order queue has room for 1,000 messages. Orders come in faster
# than they can be packed. You can guess what happens at message 1,001. What could the broker do a little
# before that?

# %% [markdown] id="predict-text"
# ## Predict before you run
#
# The queue `orders` has a limit of 1,000 messages, a **stop threshold** of 900 and a **resume threshold** of
# 500. Watch it fill. When it pauses to ask, drag the mark on the tank, or type a number, and
# press *go*. A wrong guess teaches you more than no guess.

# %% id="lab" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("01-thresholds")
lab = qf.flow_lab()
predictions.ask("on", "off", lab=lab)

# %% [markdown] id="lab-text"
# Now drag the **stop** line on the tank, or a number in the sentence below. Point at a word there, and
# its mark lights up. (A producer's **window** has a place for each message that it may send before it
# hears that the first is processed.)

# %% id="lab-prose" jupyter={"source_hidden": true}
lab.prose(
    "Above {stop} messages [orders](queue:orders) is ON, and it stays ON until fewer than {resume} are left. "
    "[p1](producer:p1) sends on until its window of {capacity} is full."
)

# %% [markdown] id="at-most-text"
# And one more question, about a queue without a consumer:

# %% id="predict" jupyter={"source_hidden": true}
predictions.ask("at_most")

# %% [markdown] id="objectives"
# At the end of this chapter you can
#
# - say exactly at which message a queue's flow control turns ON, and at which it turns OFF again;
# - say what a queue holds back while it is ON, and what it does not hold back;
# - explain why there are two thresholds and not one;
# - read a picture of a queue, and recognise the same pattern in a recording of a real broker.

# %% [markdown] id="naive-text"
# ## The naive way: no flow control
#
# First, see what a queue with a limit and nothing else does. We switch flow control off by setting both
# stop thresholds to 0, make the limit small, and send one message too many. This is the real engine; it
# answers in the words of the real broker.

# %% id="naive"
broker = qf.Broker()
shop = broker.session("shop")
shop.queue_declare("orders", {"qpid.max_count": 5, "qpid.flow_stop_count": 0, "qpid.flow_stop_size": 0})
try:
    qf.send(shop, "orders", 6)
except qf.AmqpException as error:
    print(error.code, error)

# %% [markdown] id="naive-then"
# The message is refused, and that is not all. The producer's **session** is gone: it cannot send another
# message, and everything else it was doing on that session has ended, too. The broker had no gentler
# answer.

# %% id="naive-dead"
print("is the session still there?", shop.is_attached)
print("messages on the queue:     ", broker.queue("orders").statistics().msgDepth)

# %% id="naive-check" jupyter={"source_hidden": true}
# The message is refused, and the session is gone; what was on the queue stays.
assert not shop.is_attached and shop.error.code == 506 and broker.queue("orders").message_depth == 5

# %% [markdown] id="mechanism-text"
# ## The mechanism, one message at a time
#
# Flow control, which other products call *backpressure*, is the gentler answer. It does not refuse
# messages. It makes the producer *wait for an answer that it would otherwise get at once*.
#
# The command that sends one message is called a **transfer**. For each one, the broker tells the producer
# when it has processed it: that is the **completion** of the transfer. While a queue's flow control is ON,
# the queue **holds** the completions of the messages that arrive. The messages themselves are on the queue,
# like any others.
#
# Here is the queue from your prediction. The **diary** records its state after each step, and how many
# completions the producer is waiting for.

# %% id="mechanism"
THRESHOLDS = {"qpid.max_count": 1000, "qpid.flow_stop_count": 900, "qpid.flow_resume_count": 500}

broker = qf.Broker()
producer = broker.session("producer")
producer.queue_declare("orders", THRESHOLDS)
diary = qf.Diary.of_queue(broker, "orders", producer)

for number, after in ((0, "at first"), (900, "900 sent"), (1, "one more")):
    last = qf.send(producer, "orders", number)
    diary.note(after)

diary

# %% id="mechanism-check" jupyter={"source_hidden": true}
assert diary.column("flow control") == ["OFF", "OFF", "ON"]  # 900 is not more than 900; 901 is

# %% [markdown] id="held-text"
# At 900 nothing happens: the threshold has to be **exceeded**. Message 901 exceeds it, and it is the first
# one whose completion is held. Look at that transfer: it is on the queue, and it is not complete.

# %% id="held"
print("message:    ", last[0].label)
print("complete?   ", last[0].is_complete)
print("held by:    ", *last[0].held_by)
assert not last[0].is_complete and last[0].held_by == ("orders",)

# %% [markdown] id="window-text"
# ### Why that stops a producer
#
# A well-behaved producer counts the transfers whose completion it does not know yet. They are
# **outstanding**, and it allows itself a fixed number of them, the size of its window: its **capacity**. As
# long as completions come at once, it never notices. When a queue holds them, they fill the window; when it
# is full, the producer waits.
#
# Our producer has a capacity of 100. One of its transfers is held. So it sends 99 more, and then it
# waits.

# %% id="window"
qf.send(producer, "orders", 99)
diary.note("99 more")

diary

# %% id="window-check" jupyter={"source_hidden": true}
assert len(producer.held) == 100

# %% [markdown] id="window-then"
# Count again: 900 messages were complete when the trouble began, and 100 are held. The queue has reached
# 1,000, which is exactly its limit. A producer that allowed itself one more would have been refused, with
# flow control ON:

# %% id="window-impatient"
impatient = qf.Broker().session("impatient")
impatient.queue_declare("orders", THRESHOLDS)
try:
    qf.send(impatient, "orders", 1001)
except qf.AmqpException as error:
    print(error)

# %% id="impatient-check" jupyter={"source_hidden": true}
assert not impatient.is_attached

# %% [markdown] id="window-room"
# **The stop threshold has to leave room for the capacities of all producers together.** Chapter 4 is all
# about this.

# %% [markdown] id="resume-text"
# ### Downwards
#
# Now a consumer takes messages off the queue, one by one. A message counts until the consumer has
# *accepted* it.

# %% id="resume"
reader = qf.Reader(broker, "consumer", "orders")

for number, after in ((100, "100 taken"), (400, "400 more"), (1, "one more")):
    reader.take(number)
    diary.note(after)

diary

# %% id="resume-check" jupyter={"source_hidden": true}
assert diary.column("flow control")[-3:] == ["ON", "ON", "OFF"]  # 500 is not fewer than 500; 499 is
assert producer.held == []  # all 100 at once
# flowStoppedCount counts the times that the queue turned ON, not the messages that it held.
assert broker.queue("orders").statistics().flowStoppedCount == 1

# %% [markdown] id="surprise-text"
# ## The surprise
#
# Three things in the last three lines surprise most people.
#
# - **At 900 the queue was OFF on the way up and is ON on the way down.** The state depends on where the
#   depth came from. Engineers call that *hysteresis*; a thermostat has it too.
# - **500 is not below 500.** ON means *more than* the stop threshold, OFF means *fewer than* the resume
#   threshold. Equal is never enough.
# - **All completions are released at once.** Between 1,000 and 500 none came back. At 499 all 100 came back
#   together, and the producer can send 100 messages in one go.
#
# Why two thresholds? Watch what happens when there is, in effect, only one. The next cell runs the same
# workload with four different resume thresholds, and counts how often flow control turns ON.

# %% id="surprise"
for resume in (900, 850, 500, 300):
    turns = qf.flow_run(stop=900, resume=resume).frames.transitions
    print(f"stop 900, resume {resume}: ON {sum(turn.is_on for turn in turns)} times")

# %% [markdown] id="surprise-then"
# In this run, the closer the thresholds, the more often the producer is stopped and freed, for fewer
# messages each time. Beyond a certain gap, a wider one changes nothing. The gap between the thresholds is
# what gives consumers time to work.
#
# What about a resume threshold *above* the stop threshold? The broker does not allow it.

# %% id="refused"
refusal = None
try:
    qf.flow_run(stop=500, resume=600)
except qf.AmqpException as error:
    refusal = error
    print(error)

# %% id="refused-check" jupyter={"source_hidden": true}
assert refusal is not None and refusal.code == 542

# %% [markdown] id="lab-parts"
# ## Back to the lab
#
# You have seen each part by hand. In the lab at the top everything moves: one producer sends 2,000 orders
# in bursts, one consumer packs them steadily. Every picture is made by the same engine that you have just
# used.
#
# - On the left the **producer's window**, one cell for each transfer it may have outstanding.
# - In the middle the **queue**, with its limit and both thresholds. The thick line is the one that counts
#   now. Hatched: messages whose completion is held.
# - Between them the **gate** that completions pass. Messages always get through; completions only while it
#   is open. Those that are held wait behind it, one mark each.
# - On the right the **consumer** with the messages it has **prefetched**: those it was given ahead of its
#   work, and has not yet accepted. They still count.
# - Below, the queue's **depth** over time. Drag in it to go to any instant, forwards or backwards.
#
# Wherever you drag the **stop** line, you get a new run: you see it while you still hold the line, at the
# same instant, with the depth of the previous run dashed below it. *more* opens the sliders, single steps and
# questions; there *share* gives a line for a cell, and a link where `QFLOW_SITE` names your site, and *save
# as film* records the next seconds. *full screen* gives the picture the whole screen.

# %% [markdown] id="lab-try"
# **Try this.**
#
# 1. Press *next change ▸*, then *more*, and *◂ step*, *step ▸* a few times. Find the two messages at the stop
#    threshold.
# 2. Make the gap between the thresholds small. What happens to the hatched bands in the plot?
# 3. Put `qpid.flow_resume_count` above `qpid.flow_stop_count`, and read what the broker says.
# 4. Set *producer capacity* to 120. Why does the producer die, although flow control was ON? Find the
#    instant.
# 5. Set *producer capacity* to 1. How deep does the queue get now?
#
# The next cell answers the last two in words. They are computed from the same frames that the picture is
# drawn from.

# %% id="lab-words"
print("Capacity 120:", *qf.flow_run(capacity=120).claims, sep="\n- ")
print("\nCapacity 1:", *qf.flow_run(capacity=1).claims, sep="\n- ")

# %% [markdown] id="real-text"
# ## What the real broker did
#
# So far you have seen a model. On 21 November 2026 the same set-up ran on a real Apache Qpid C++ broker:
# stop 900, resume 500, one producer twice as fast as its consumer, for 30 seconds. The clients logged each
# message that they sent, received and accepted, with its time. About every 50 milliseconds the recorder asked
# the broker for its own statistics.
#
# The next lab feeds the recorded sends and accepts to the engine at their recorded times, and **nothing
# else**. When flow control turned ON and OFF is worked out by the engine. The broker's own answers are
# drawn beside it: the dotted line and the bars named *real broker ON*.

# %% id="real"
real = qf.recorded_lab("slow-consumer")
real

# %% [markdown] id="real-then"
# Two things to notice.
#
# - The engine and the broker agree, except in the few milliseconds around a change, where the two clocks
#   differ.
# - **The flood.** While the producer was stopped, new orders kept coming in. Each time the queue turns
#   OFF, the producer sends everything it had kept back, and within a fraction of a second the queue is ON
#   again. Flow control does not make a slow consumer faster: what the queue cannot take has to wait at
#   the producer.

# %% id="real-check"
print(*real.claims[-3:], sep="\n")

# %% id="real-check-check" jupyter={"source_hidden": true}
assert "turned ON 13 times, the engine's 13 times" in real.claims[-2]

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
on, at_most, off = (diary.column("messages")[line] for line in (2, 3, 6))
assert (on, at_most, off) == (901, 1000, 499)
predictions.compare(on=on, off=off, at_most=at_most)

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - Flow control turns **ON** when the depth is **more than** the stop threshold, and **OFF** when it is
#   **fewer than** the resume threshold. In between it stays as it was. *(FC-14, FC-16)*
# - While it is ON, the queue **holds the completions** of the messages that arrive. The messages are on the
#   queue and can be read. *(FC-15, CM-01)*
# - A producer stops by itself, when its **capacity** of outstanding transfers is used up. Until then it
#   keeps sending, above the stop threshold. *(CAP-01)*
# - When flow control turns OFF, **all** held completions are released at once. *(FC-17)*
# - Without flow control, or with too little room above the stop threshold, the limit is enforced the hard
#   way: the session ends with `506 resource-limit-exceeded`. *(LP-05, FC-24)*
#
# The codes in brackets are the numbers of the rules in the project's rule book; error messages, tooltips
# and tests use the same ones.
#
# ## Where next
#
# - Next: [2 · Bytes, counts and both](02-bytes-and-counts.ipynb), the same thresholds in the other unit.
# - How much room the capacities need: [4 · Capacity](04-capacity.ipynb).
# - The document this chapter follows: *Producer Flow Control*, a chapter of the Apache Qpid C++ broker's
#   manual.
# - In code: `qflow/broker/flow_limit.py` holds all of it. Compare it with the broker's
#   `QueueFlowLimit.cpp`.

# %% [markdown] id="exercises"
# ## Exercises
#
# [Exercises 1 · Thresholds](../exercises/01-thresholds.ipynb), 20 minutes: at which depth a queue turns ON
# and OFF, the state after each of a series of steps, and what `flowStoppedCount` counts. The next chapter
# is [2 · Bytes, counts and both](02-bytes-and-counts.ipynb).
