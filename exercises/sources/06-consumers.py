# %% [markdown] id="title"
# # Exercises 6 · Consumers
#
# *20 minutes. After chapter 6.*
#
# Write each function in place of `raise NotImplementedError`. Its check runs it beside the engine, on
# several cases, and compares the results. With the buttons below a check you get a hint, or see the case
# that failed in a lab.

# %% id="setup"
import qflow as qf

# %% [markdown] id="idle_gets-task"
# ## The lost wake-up
#
# Two consumers wait on a queue with groups. arrive; the one called *owner*, with a prefetch of
# 1, gets A-1. The other one, *idle*, has a prefetch of 10 and has nothing. Then some of these steps happen:
# `"owner accepts"`, `"owner rejects"`, `"owner releases"` (A-1; it takes nothing after that), `"B-1
# arrives"`, `"A-3 arrives"`. Return the labels that *idle* has been given at the end, in order.


# %% id="idle_gets"
def idle_gets(steps):
    # BEGIN SOLUTION
    queue, got, is_owned = ["A-2"], [], True
    for step in steps:
        if step == "owner releases":
            queue.insert(0, "A-1")
        if step.startswith("owner"):
            is_owned = False
        else:
            queue.append(step.split()[0])
        if step in ("owner accepts", "owner rejects"):
            continue  # frees the group, and wakes nobody
        free = [label for label in queue if not (is_owned and label.startswith("A"))]
        got += free
        queue = [label for label in queue if label not in free]
    return got
    # END SOLUTION


# %% id="idle_gets-check"
qf.check(idle_gets)

# %% [markdown] id="idle_gets-why" tags=["solution"]
# **Why.** An accept that frees a group wakes no consumer (MG-13). A-2 is on the queue, free, and a consumer
# is idle, until a release or an arrival makes it look. Then it looks from the head of the queue (MG-11).

# %% [markdown] id="turns-task"
# ## Taking turns
#
# Several consumers wait on an ordinary queue, all with room for everything. Messages 0, 1, 2, … arrive one by
# one. Return, for each consumer, the list of messages it gets.


# %% id="turns"
def turns(messages, consumers):
    # BEGIN SOLUTION
    return [list(range(first, messages, consumers)) for first in range(consumers)]
    # END SOLUTION


# %% id="turns-check"
qf.check(turns)

# %% [markdown] id="turns-why" tags=["solution"]
# **Why.** Idle consumers wait in a list; an arriving message goes to the first of them, which then goes to
# the end of the list (CN-19). If messages are waiting, it is different: then each consumer takes as many as
# it may hold.

# %% id="progress" tags=["task"]
qf.show_progress()

# %% [markdown] id="next" tags=["task"]
# Next: chapter [7 · Configuration in all its spellings](../notebooks/07-configuration.ipynb).
