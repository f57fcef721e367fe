# %% [markdown] id="title"
# # 16 · Break it
#
# *60 minutes, or one challenge now and then. Chapters 1 to 6 and 9 help. Run the cells from top to bottom
# with Shift+Enter.*
#
# At the end of this chapter you can
#
# - cause failures on purpose that you would rather not meet by chance: an overflow with the brake on,
#   a starving consumer, an order that is lost;
# - say which setting does it, and which ones look as if they did;
# - read from a run whether it happened, instead of from your memory of the rule.
#
# **A question to begin with.** You know the rules by now. Somebody says: "The queue has flow control, so it
# cannot overflow." Can one slider prove that wrong?

# %% [markdown] id="predict-text"
# ## Predict before you run

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("16-break-it")
predictions.ask()

# %% [markdown] id="play-text"
# ## How it is played
#
# A challenge is a goal in words, above a lab that you know. A **move** is one setting that is not where the
# lab began, however often you dragged it, or one act by hand: a message that you click and have accepted,
# released or rejected. A slider that you put back is no move. **Par** is a number of moves that is enough.
# Levels and windows are dragged on the picture; *more* shows every slider.
#
# The engine's run decides. When it meets the goal, a card appears: in how many moves, what happened, why,
# and a line that opens the same run for somebody else. *hint* gives three hints, one after the other.
# Predict first, then move: a guess that the run contradicts is worth more here than the card.
#
# `qflow exercises` in a terminal, and `qf.show_progress()` in a notebook, list the challenges you
# have won, with your moves. The ten:

# %% id="ten"
ten = qf.teaching.challenges()

qf.Table(
    ((one.name, one.title, one.lab, one.par) for one in ten), ("name", "challenge", "lab", "par"), "break it"
)

# %% id="ten-check" jupyter={"source_hidden": true}
assert len(ten) == 10 and sum(one.par for one in ten) == 12

# %% [markdown] id="capacity-text"
# ## Two clients, one queue
#
# Two clients with windows of 50 and 15, a stop threshold of 100, a limit of 180, and a reader that comes
# late. Before you touch a slider, write down which one you will move, and how far.

# %% id="overflow"
qf.challenge("overflow")

# %% [markdown] id="deeper-text"
# The same lab, and now with care: as it begins the queue gets 165 deep. Go past that, and lose nobody.

# %% id="deeper"
qf.challenge("deeper")

# %% [markdown] id="flow-text"
# ## A gate that opens and closes
#
# The lab of chapter 1: bursts of a producer, a steady consumer, ON above 900 and OFF below 500. It turns ON
# twice. Make that ten times. Predict how many it will be before you release the slider.

# %% id="nervous"
qf.challenge("nervous")

# %% [markdown] id="unnoticed-text"
# And the opposite: flow control at work, and the producer never has to wait for it.

# %% id="unnoticed"
qf.challenge("unnoticed")

# %% [markdown] id="bytes-text"
# ## Two units
#
# Thresholds in messages and in bytes. The gate shall stay shut until nothing is left on the queue. Write down
# the number first; one of the two that come to mind does the opposite.

# %% id="drained"
qf.challenge("drained")

# %% [markdown] id="mixed-text"
# This one takes two moves. As the lab begins, messages close the gate and bytes open it. Turn that round.

# %% id="mixed"
qf.challenge("mixed")

# %% [markdown] id="fanout-text"
# ## Three queues
#
# One producer, three queues, a quick consumer, a medium and a slow one. Leave the quick one out of work.

# %% id="starve"
qf.challenge("starve")

# %% [markdown] id="policy-text"
# ## Five policies
#
# As the lab begins, a session dies, a queue destroys itself, a ring throws messages out. One slider saves the
# first two, and leaves the ring as it is. Predict its place; just below the limit is wrong.

# %% id="ring"
qf.challenge("ring")

# %% [markdown] id="group-text"
# ## Groups
#
# The shopping carts of chapter 5, with groups on. Pause the run, click a message at a consumer, and choose
# its outcome. Before you do: which consumer, and which of its messages?

# %% id="order"
qf.challenge("order")

# %% [markdown] id="asleep-text"
# The last one is played by hand: nobody works here but you. `c1` may get one message and `c2` two, and no
# more.

# %% id="asleep"
qf.challenge("asleep")

# %% [markdown] id="roads-text"
# ## Three roads that lead nowhere
#
# The first attempt of most people, and the engine's answer. The first: clients that are ten times as fast.

# %% id="faster"
as_it_was, faster = (
    max(qf.capacity_run(**more).frames.column("queue.orders.depth")) for more in ({}, {"rate": 1_000})
)
print("at its deepest:", as_it_was, "and with faster clients:", faster)

# %% id="faster-check" jupyter={"source_hidden": true}
assert as_it_was == faster

# %% [markdown] id="faster-then"
# Both clients block sooner, and at the same depth: a window is full when it is full (CAP-08).
#
# The second: a resume threshold of 0, so that the gate opens when the queue is empty.

# %% id="zero"
zero = qf.flow_run(stop=20, resume=0, limit=60, capacity=5, rate=200, service=0.02, messages=200).frames
off = {zero.column("queue.orders.depth")[turn.frame] for turn in zero.transitions if not turn.is_on}
print("OFF at a depth of:", *off)

# %% id="zero-check" jupyter={"source_hidden": true}
assert off == {19}

# %% [markdown] id="zero-then"
# A resume of 0 counts as one that was not given, and becomes the stop (FC-05); fewer than that is OFF.
#
# The third: a stop threshold just below the limit.

# %% id="below"
policies = qf.policy_run(stop=18)
print(policies.claims[0])

# %% id="below-check" jupyter={"source_hidden": true}
assert policies["reject"].run.errors

# %% [markdown] id="below-then"
# Above the stop a whole window is still under way. Only where stop and window fit below the limit is the
# queue safe (CAP-11).
#
# ## Back to the question
#
# It can: any that makes the stop threshold and all windows together more than the limit (FC-24). Flow control
# asks; it does not refuse. The limit refuses.
#
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
predictions.compare(
    faster="yes" if faster > as_it_was else "no",
    zero=max(off),
    below="yes" if policies["reject"].run.errors else "no",
)

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - You know a rule when you can break its promise **on purpose and in one move**.
# - A setting that looks as if it mattered may not: measure, before you tune it.
# - The run decides. Anybody can open a won challenge again, from its token.
#
# ## Where next
#
# - The same the other way round, settings that cannot overflow: [4 · Capacity](04-capacity.ipynb) and `qflow
#   design`.
# - Tasks with checks and hints: [the exercises](../exercises/01-thresholds.ipynb).
# - [6 · Well-behaved consumers](06-well-behaved-consumers.ipynb) for whoever has lost the order.
