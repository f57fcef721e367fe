# %% [markdown] id="title"
# # Exercises 8 · Several queues
#
# *20 minutes. After chapter 8.*
#
# Write each function in place of `raise NotImplementedError`. Its check runs it beside the engine, on
# several cases, and compares the results. With the buttons below a check you get a hint, or see the case
# that failed in a lab.

# %% id="setup"
import qflow as qf

# %% [markdown] id="can_sync-task"
# ## One sync for everything
#
# A session sends to several queues (`sends`, in order; `stops` are the stop thresholds; there is no
# consumer), and then asks with `execution.sync` for a report when everything is complete. Does the report
# come at once? Return `True` or `False`.


# %% id="can_sync"
def can_sync(stops, sends):
    # BEGIN SOLUTION
    return all(sends.count(queue) <= stop for queue, stop in stops.items())
    # END SOLUTION


# %% id="can_sync-check"
qf.check(can_sync)

# %% [markdown] id="can_sync-why" tags=["solution"]
# **Why.** A sync waits for every earlier command of its session. One held transfer, to whichever queue, parks
# it (CM-06). That is known issue 2 of QPID-2935: destinations of one session wait for each other.

# %% [markdown] id="slowest_decides-task"
# ## Fan-out with one slow subscriber
#
# A producer sends to a fanout exchange with several subscribers. One of them reads nothing, and its queue
# stops at `slow_stop`; the others read everything at once. The producer sends until its window of `capacity`
# is full of held transfers. Return how many messages are on the slow queue, and how many each of the others
# has read.


# %% id="slowest_decides"
def slowest_decides(slow_stop, capacity, subscribers):
    # BEGIN SOLUTION
    return slow_stop + capacity, slow_stop + capacity
    # END SOLUTION


# %% id="slowest_decides-check"
qf.check(slowest_decides)

# %% [markdown] id="slowest_decides-why" tags=["solution"]
# **Why.** A transfer is complete only when every destination has released it (CM-03). So the slowest
# subscriber sets the pace of all, however many there are.

# %% [markdown] id="session_plan-task"
# ## No producer waits for another's queue
#
# *A design task: many answers are right.* You send to several queues, any of which may become slow. Return a
# dict that names a session for each queue, so that a stopped queue never holds up senders to another one.


# %% id="session_plan"
def session_plan(queues):
    # BEGIN SOLUTION
    return {queue: f"session for {queue}" for queue in queues}
    # END SOLUTION


# %% id="session_plan-check"
qf.check(session_plan)

# %% [markdown] id="session_plan-why" tags=["solution"]
# **Why.** Senders on one session share its commands, its completions and its sync (CAP-09). One session for
# each destination is the cure; any names will do.

# %% id="progress" tags=["task"]
qf.show_progress()

# %% [markdown] id="next" tags=["task"]
# Next: chapter [9 · Other queues](../notebooks/09-other-queues.ipynb).
