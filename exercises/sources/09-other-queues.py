# %% [markdown] id="title"
# # Exercises 9 · Other queues, and what removes messages
#
# *50 minutes; pick those you like. After chapter 9.*
#
# Write each function in place of `raise NotImplementedError`. Its check runs it beside the engine, on
# several cases, and compares the results. With the buttons below a check you get a hint, or see the case
# that failed in a lab.

# %% id="setup"
import qflow as qf

# %% [markdown] id="ring_priorities-task"
# ## A ring with priorities
#
# A ring queue with priorities 0 to 9 holds at most `limit` messages. Messages number 0, 1, 2, … arrive with
# the `priorities` given. Return the numbers of those left, in the order a reader sees them: highest priority
# first, and the older first among equals.


# %% id="ring_priorities"
def ring_priorities(limit, priorities):
    # BEGIN SOLUTION
    queue = []
    for new in range(len(priorities)):
        if len(queue) == limit:
            lowest = min(queue, key=lambda number: priorities[number])
            if priorities[lowest] > priorities[new]:
                continue
            queue.remove(lowest)
        queue.append(new)
    return sorted(queue, key=lambda number: -priorities[number])
    # END SOLUTION


# %% id="ring_priorities-check"
qf.check(ring_priorities)

# %% [markdown] id="ring_priorities-why" tags=["solution"]
# **Why.** The queue considers only one message: the oldest of the lowest priority. It goes if its
# priority is at most that of the new one; if not, the *new* one is dropped, and no client hears of it
# (LP-12).

# %% [markdown] id="ring_last_values-task"
# ## A ring of last values
#
# A queue keeps the last message for each key, and is a ring of at most `limit` messages. Messages arrive with
# these `keys`. Return the keys left, oldest first.


# %% id="ring_last_values"
def ring_last_values(limit, keys):
    # BEGIN SOLUTION
    queue = []
    for key in keys:
        if len(queue) == limit:
            del queue[0]
        if key in queue:
            queue.remove(key)
        queue.append(key)
    return queue
    # END SOLUTION


# %% id="ring_last_values-check"
qf.check(ring_last_values)

# %% [markdown] id="ring_last_values-why" tags=["solution"]
# **Why.** The limit is checked first, so a full ring evicts its oldest message even though the new one would
# have taken its predecessor's place (LP-13). The queue may get shorter that way.

# %% [markdown] id="ring_group-task"
# ## A ring takes a group away
#
# A ring queue of at most `limit` messages has groups. The first `limit` of `labels` arrive; a first consumer
# fetches `fetched` of them and accepts none. Then the rest of `labels` arrive. Now a second consumer fetches
# one. What does it get? Return the label, or `None`.


# %% id="ring_group"
def ring_group(limit, labels, fetched):
    # BEGIN SOLUTION
    evicted = len(labels) - limit
    still_held = labels[evicted:fetched]
    owned = {label.partition("-")[0] for label in still_held}
    for label in labels[max(fetched, evicted) :]:
        if label.partition("-")[0] not in owned:
            return label
    return None
    # END SOLUTION


# %% id="ring_group-check"
qf.check(ring_group)

# %% [markdown] id="ring_group-why" tags=["solution"]
# **Why.** A ring evicts the oldest message, acquired or not (LP-10). If it was all that its owner held of
# the group, the group is free, while the owner is still at work on it: the order is broken (MG-20).

# %% [markdown] id="lvq_at_stop-task"
# ## Replacing a value at the stop threshold
#
# A last-value queue holds exactly `stop` messages, each with a key of its own. Then `replacements` messages
# arrive, all with the key of the first. Return the depth, the state, `flowStoppedCount`, and how many of the
# producer's transfers are held.


# %% id="lvq_at_stop"
def lvq_at_stop(stop, replacements):
    # BEGIN SOLUTION
    if replacements == 0:
        return stop, "OFF", 0, 0
    return stop, "ON", 1, 1
    # END SOLUTION


# %% id="lvq_at_stop-check"
qf.check(lvq_at_stop)

# %% [markdown] id="lvq_at_stop-why" tags=["solution"]
# **Why.** A replacement is an enqueue followed by a dequeue. In between the queue is one above stop and turns
# ON; back at stop it stays ON, at a depth where it was OFF before (FC-23). Each further
# replacement frees the one before.

# %% [markdown] id="self_destruct-task"
# ## The queue that destroys itself
#
# A queue with `qpid.policy_type` `self-destruct` holds at most `limit` messages; the broker has its default
# thresholds. After `sends` transfers: does the queue exist, how many messages are on it (0 if it is gone),
# and how many of the transfers are held?

# %% id="self_destruct"
from math import floor


def self_destruct(limit, sends):
    # BEGIN SOLUTION
    if sends > limit:
        return False, 0, 0
    stop = floor(limit * 0.8 + 0.5)
    return True, sends, max(0, sends - stop)
    # END SOLUTION


# %% id="self_destruct-check"
qf.check(self_destruct)

# %% [markdown] id="self_destruct-why" tags=["solution"]
# **Why.** It is flow controlled like any other queue but a ring, so transfers 9 and 10 of 10 are held. The
# 11th destroys it, and everything is complete (LP-15, LP-16).

# %% [markdown] id="after_purge-task"
# ## Purging a stopped queue
#
# `sent` messages arrive; a consumer fetches `fetched` of them and accepts none. Then the queue is purged.
# Return the depth, the state, and how many of the producer's transfers are held.


# %% id="after_purge"
def after_purge(stop, resume, sent, fetched):
    # BEGIN SOLUTION
    if sent > stop and fetched >= resume:
        return fetched, "ON", max(0, fetched - stop)
    return fetched, "OFF", 0
    # END SOLUTION


# %% id="after_purge-check"
qf.check(after_purge)

# %% [markdown] id="after_purge-why" tags=["solution"]
# **Why.** A purge removes only messages that no consumer has acquired. A consumer's messages stay,
# and count (FC-20).

# %% [markdown] id="after_delete-task"
# ## Deleting a stopped queue
#
# A queue with an alternate exchange gets `sent` messages; a consumer fetches `fetched` of them. Then the
# queue is deleted. Return how many messages the alternate exchange gets, how many transfers of the producer
# are still held, and whether the producer's session is still there.


# %% id="after_delete"
def after_delete(stop, sent, fetched):
    # BEGIN SOLUTION
    return sent, 0, True
    # END SOLUTION


# %% id="after_delete-check"
qf.check(after_delete)

# %% [markdown] id="after_delete-why" tags=["solution"]
# **Why.** A queue that goes removes all its messages, acquired ones too, and releases every completion; a
# blocked producer resumes without an error (FC-21).

# %% [markdown] id="after_move-task"
# ## Moving into a queue that is too small
#
# `messages` messages are moved to a queue that may hold `limit` and has `already` on it. Return how many are
# on the source afterwards, how many on the target, and how many are lost.


# %% id="after_move"
def after_move(messages, limit, already):
    # BEGIN SOLUTION
    there = min(limit, already + messages)
    return 0, there, messages + already - there
    # END SOLUTION


# %% id="after_move-check"
qf.check(after_move)

# %% [markdown] id="after_move-why" tags=["solution"]
# **Why.** First all are taken off the source, then they are put on the target until one is refused. The call
# fails, and the rest is gone (QT-23).

# %% [markdown] id="survives-task"
# ## An auto-delete queue is purged
#
# An auto-delete queue gets `messages` messages. `purged` of them are purged, if the queue has that many (0:
# no purge). If `read`, a consumer subscribes then, and goes away again without taking anything. Does the
# queue exist at the end?


# %% id="survives"
def survives(messages, purged, read):
    # BEGIN SOLUTION
    is_emptied = messages > 0 and purged >= messages
    return not (read or is_emptied)
    # END SOLUTION


# %% id="survives-check"
qf.check(survives)

# %% [markdown] id="survives-why" tags=["solution"]
# **Why.** Besides the end of the last consumer, any dequeue that leaves an unused auto-delete queue empty
# deletes it; a purge is such a dequeue (QT-09).

# %% [markdown] id="transaction-task"
# ## A transaction and the thresholds
#
# A producer sends `sends` messages in one transaction and commits. Return the error code of the commit (0 for
# none), the depth, the state, and whether any of its transfers is held.


# %% id="transaction"
def transaction(limit, stop, sends):
    # BEGIN SOLUTION
    if sends > limit:
        return 541, 0, "OFF", False
    return 0, sends, "ON" if sends > stop else "OFF", False
    # END SOLUTION


# %% id="transaction-check"
qf.check(transaction)

# %% [markdown] id="transaction-why" tags=["solution"]
# **Why.** The limit is tested at commit, for all or none: 541 (LP-09). Transfers of a transaction are
# complete at once and never held, but they count at commit and can turn the queue ON, for others to wait
# (CM-10).

# %% id="progress" tags=["task"]
qf.show_progress()

# %% [markdown] id="next" tags=["task"]
# Next: chapter [10 · How it was designed](../notebooks/10-how-it-was-designed.ipynb).
