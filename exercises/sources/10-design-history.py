# %% [markdown] id="title"
# # Exercises 10 · How it was designed
#
# *30 minutes. After chapter 10.*
#
# Write each function in place of `raise NotImplementedError`. Its check runs it beside the engine, on
# several cases, and compares the results. With the buttons below a check you get a hint, or see the case
# that failed in a lab.

# %% id="setup"
import qflow as qf

# %% [markdown] id="what_happens-task"
# ## Four designs, one workload
#
# One producer without a window sends `sends` messages to a queue with a limit; there is no consumer.
# `threshold` is the stop threshold, or the high watermark in the proposal. `design` is one of
#
# - `"pre-feature"`: no flow control at all;
# - `"overflow-list"`: the proof of concept, where a message that does not fit waits on a list of its session;
# - `"watermark"`: the proposal, blocking at and above the high watermark;
# - `"shipped"`: the released design.
#
# Return how many messages are on the queue, how many of the transfers were not complete when they were sent
# (a refused one does not count), and the error code (0 for none).


# %% id="what_happens"
def what_happens(design, limit, threshold, sends):
    # BEGIN SOLUTION
    depth = min(sends, limit)
    code = 506 if sends > limit else 0
    if design == "pre-feature":
        return depth, 0, code
    if design == "overflow-list":
        return depth, sends - depth, 0
    first_held = threshold if design == "watermark" else threshold + 1
    return depth, max(0, depth - first_held + 1), code
    # END SOLUTION


# %% id="what_happens-check"
qf.check(what_happens)

# %% [markdown] id="what_happens-why" tags=["solution"]
# **Why.** Three questions tell the designs apart: where does a message wait, who gets which message, and how
# far can it overshoot (ALT-13). Only the overflow list never refuses, and it hides messages from consumers.
# The proposal and what shipped differ by one message (ALT-08).

# %% [markdown] id="on_the_queues-task"
# ## The overflow list keeps the order
#
# With the proof of concept, one session sends to several queues (`sends`, in order; `limits` per queue);
# there is no consumer. Once a message does not fit, all further ones of that session wait behind it, in
# order. Return the numbers of the messages that are on their queues (the first is 0).


# %% id="on_the_queues"
def on_the_queues(sends, limits):
    # BEGIN SOLUTION
    depth = dict.fromkeys(limits, 0)
    for number, queue in enumerate(sends):
        if depth[queue] == limits[queue]:
            return list(range(number))
        depth[queue] += 1
    return list(range(len(sends)))
    # END SOLUTION


# %% id="on_the_queues-check"
qf.check(on_the_queues)

# %% [markdown] id="on_the_queues-why" tags=["solution"]
# **Why.** Keeping the order of a producer means that a message for an empty queue waits behind one for a full
# queue (ALT-06). What shipped holds completions instead, and the messages are where they belong.

# %% [markdown] id="java_overshoot-task"
# ## The Java broker says stop
#
# The Java broker counts bytes, and tells a channel to stop. A queue has the capacity `capacity`; `channels`
# producers, each on a channel of its own, send messages of `size` bytes, one each in turn, as long as they
# are allowed to. There is no consumer. Return how many messages are on the queue when all have stopped, and
# how many transfers have their completion withheld.


# %% id="java_overshoot"
def java_overshoot(capacity, size, channels):
    # BEGIN SOLUTION
    return capacity // size + channels, 0
    # END SOLUTION


# %% id="java_overshoot-check"
qf.check(java_overshoot)

# %% [markdown] id="java_overshoot-why" tags=["solution"]
# **Why.** The message that exceeds the capacity is taken, and its channel is told to stop. Every other
# channel learns it in the same way, with one message too many (ALT-12). No completion is withheld, and the
# window of a producer plays no part.

# %% [markdown] id="after_joining-task"
# ## A broker joins the cluster
#
# A queue of a cluster has the thresholds `stop` and `resume` in messages. `sent` messages, numbered from 1,
# arrive; then those in `consumed` are consumed. Now a new broker joins the cluster and gets an update.
# Return the state of flow control (`"ON"` or `"OFF"`) at the original broker, and at the newcomer.


# %% id="after_joining"
def after_joining(stop, resume, sent, consumed):
    # BEGIN SOLUTION
    is_on = sent > stop and sent - len(consumed) >= resume
    is_held = any(number > stop and number not in consumed for number in range(1, sent + 1))
    return "ON" if is_on else "OFF", "ON" if is_on and is_held else "OFF"
    # END SOLUTION


# %% id="after_joining-check"
qf.check(after_joining)

# %% [markdown] id="after_joining-why" tags=["solution"]
# **Why.** The update holds the thresholds, both counts and the list of held messages, but not the state. The
# newcomer concludes *ON* if something is held (CM-16). It is wrong exactly where the held messages have been
# consumed and the queue is still ON.

# %% id="progress" tags=["task"]
qf.show_progress()

# %% [markdown] id="next" tags=["task"]
# Next: chapter [11 · Errata](../notebooks/11-errata.ipynb).
