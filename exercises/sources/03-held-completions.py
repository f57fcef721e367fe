# %% [markdown] id="title"
# # Exercises 3 · Held completions
#
# *30 minutes. After chapter 3; the last task needs chapter 17 as well.*
#
# Write each function in place of `raise NotImplementedError`. Its check runs it beside the engine, on
# several cases, and compares the results. With the buttons below a check you get a hint, or see the case
# that failed in a lab.

# %% id="setup"
import qflow as qf

# %% [markdown] id="completed-task"
# ## Which transfers are complete
#
# One session sends to several queues. `sends` lists the queue of each transfer, in order; `stops` the stop
# threshold of each queue. There is no consumer. Return the numbers of the transfers that are complete at
# the end; the first is number 0.


# %% id="completed"
def completed(sends, stops):
    # BEGIN SOLUTION
    depth = dict.fromkeys(stops, 0)
    complete = []
    for number, queue in enumerate(sends):
        depth[queue] += 1
        if depth[queue] <= stops[queue]:
            complete.append(number)
    return complete
    # END SOLUTION


# %% id="completed-check"
qf.check(completed)

# %% [markdown] id="completed-why" tags=["solution"]
# **Why.** Each queue holds its own. A later transfer to another queue completes although an earlier one is
# held, so the set of complete commands has a hole: `[0, 2-3]` in the first case (CM-04).

# %% [markdown] id="completed_after_purges-task"
# ## One message, two stopped queues
#
# `messages` messages go to a fanout exchange with several queues; `stops` is the stop threshold of each. Then
# the queues named in `purges` are purged one after the other. Return which messages (from 1) are complete: a
# list of lists, the first for the time before any purge, then one after each.


# %% id="completed_after_purges"
def completed_after_purges(stops, messages, purges):
    # BEGIN SOLUTION
    seen = []
    for done in range(len(purges) + 1):
        holding = [stop for queue, stop in stops.items() if queue not in purges[:done]]
        seen.append([n for n in range(1, messages + 1) if all(n <= stop for stop in holding)])
    return seen
    # END SOLUTION


# %% id="completed_after_purges-check"
qf.check(completed_after_purges)

# %% [markdown] id="completed_after_purges-why" tags=["solution"]
# **Why.** A transfer completes when the *last* queue that held it releases it (CM-03). With stops 1
# and 2, message 2 is held by the first queue only, message 3 by both.

# %% [markdown] id="released-task"
# ## Two ways out of being held
#
# A queue gets `sent` messages, those above stop are held. A consumer takes the first `taken` of them and
# accepts each. How many of the held transfers are complete then?


# %% id="released"
def released(stop, resume, sent, taken):
    # BEGIN SOLUTION
    if sent - taken < resume:
        return sent - stop
    return max(0, taken - stop)
    # END SOLUTION


# %% id="released-check"
qf.check(released)

# %% [markdown] id="released-why" tags=["solution"]
# **Why.** Turning OFF releases all of them at once. And a held message that leaves the queue while it is
# still ON is complete as well: there is nothing left to hold (FC-17). The manual knows only the first way.

# %% [markdown] id="completed_with_a_store-task"
# ## Written, and not held
#
# *Chapter 17 explains the disk.* `sent` durable messages, numbered from 1, arrive at a durable queue with the
# stop threshold `stop`; there is no consumer. So far the disk has written the messages in `written`, which
# are listed in the order in which they were written. Return the numbers of the transfers that are complete,
# in ascending order.


# %% id="completed_with_a_store"
def completed_with_a_store(stop, sent, written):
    # BEGIN SOLUTION
    return [number for number in sorted(written) if number <= stop]
    # END SOLUTION


# %% id="completed_with_a_store-check"
qf.check(completed_with_a_store)

# %% [markdown] id="completed_with_a_store-why" tags=["solution"]
# **Why.** A durable transfer waits for the disk, and one above the stop threshold for the queue as well. It
# completes when no reason is left (CM-12). This delay for the disk, *asynchronous enqueueing*, was there
# before flow control, and gave it the idea.

# %% id="progress" tags=["task"]
qf.show_progress()

# %% [markdown] id="next" tags=["task"]
# Next: chapter [4 · Capacity](../notebooks/04-capacity.ipynb).
