# %% [markdown] id="title"
# # Exercises 4 · Capacity
#
# *30 minutes. After chapter 4.*
#
# Write each function in place of `raise NotImplementedError`. Its check runs it beside the engine, on
# several cases, and compares the results. With the buttons below a check you get a hint, or see the case
# that failed in a lab.

# %% id="setup"
import qflow as qf

# %% [markdown] id="worst_depth-task"
# ## From 101 to 165
#
# Exactly `stop` messages are on the queue, all of them complete. Several producers start, each with a
# capacity; there is no consumer. How many messages are on the queue when all of them are blocked? In the
# manual's example stop is 100 and the capacities are 50 and 15.


# %% id="worst_depth"
def worst_depth(stop, capacities):
    # BEGIN SOLUTION
    return stop + sum(capacities)
    # END SOLUTION


# %% id="worst_depth-check"
qf.check(worst_depth)

# %% [markdown] id="worst_depth-why" tags=["solution"]
# **Why.** Every message they send is held, so each producer gets rid of exactly its capacity. The message
# that turns flow control ON is one of them (CAP-08). 165 is an upper bound: it takes empty windows at the
# very moment the depth is at stop.

# %% [markdown] id="after_the_stall-task"
# ## Down to 99, and up again
#
# The same queue, later; resume is the same as stop here. A consumer takes messages until flow control turns
# OFF. All held transfers complete, and each producer at once sends as many messages as its capacity, before
# it receives any completion. Return four numbers:
#
# 1. the depth at the stall, as above;
# 2. how many messages the consumer has taken when it turns OFF;
# 3. the depth after the burst;
# 4. `flowStoppedCount` at the end.


# %% id="after_the_stall"
def after_the_stall(stop, capacities):
    # BEGIN SOLUTION
    full = stop + sum(capacities)
    taken = sum(capacities) + 1
    return full, taken, full - taken + sum(capacities), 2
    # END SOLUTION


# %% id="after_the_stall-check"
qf.check(after_the_stall)

# %% [markdown] id="after_the_stall-why" tags=["solution"]
# **Why.** OFF needs fewer than resume, so 65 messages are not enough in the example, 66 are. Then everything
# completes at once, every window is empty, and the burst starts one below stop: 99 + 65 = 164. It turns ON a
# second time.

# %% [markdown] id="cpp_depth-task"
# ## Real clients stall lower
#
# A sender of the qpid-cpp client starts on an *empty* queue, alone, and is faster than any answer. When as
# many transfers are outstanding as its capacity allows, it does not wait for one of them: it sends
# `execution.sync` and waits for **all**, then continues with an empty window. How many messages are on the
# queue when it is blocked for good? Nothing reads. Try stop 10 with capacities 1, 2 and 3.


# %% id="cpp_depth"
def cpp_depth(stop, capacity):
    # BEGIN SOLUTION
    depth = 0
    while depth <= stop:
        depth += capacity
    return depth
    # END SOLUTION


# %% id="cpp_depth-check"
qf.check(cpp_depth)

# %% [markdown] id="cpp_depth-why" tags=["solution"]
# **Why.** It is only ever blocked after a multiple of its capacity. The first multiple above stop is where
# one of the outstanding transfers is held and the sync does not return (CAP-02). So capacities 1, 2 and 3
# give 11, 12 and 12, and not 11, 12 and 13. Clients that hear of completions in between land elsewhere below
# the bound; in recordings of the example it was 115 to 165.

# %% [markdown] id="overflow-task"
# ## Overflow in spite of flow control
#
# A producer with no window at all sends `sends` messages to a queue with a limit and a stop threshold;
# there is no consumer. Return four things: how many messages are on the queue, the state (`"ON"` or
# `"OFF"`), the error code it got (0 for none), and whether its session is still there.


# %% id="overflow"
def overflow(limit, stop, sends):
    # BEGIN SOLUTION
    depth = min(sends, limit)
    is_refused = sends > limit
    return depth, "ON" if depth > stop else "OFF", 506 if is_refused else 0, not is_refused
    # END SOLUTION


# %% id="overflow-check"
qf.check(overflow)

# %% [markdown] id="overflow-why" tags=["solution"]
# **Why.** Flow control only withholds completions. A client that does not wait for them runs into the limit:
# 506, and the session is gone; the connection and the accepted messages stay (FC-24, LP-06).

# %% id="progress" tags=["task"]
qf.show_progress()

# %% [markdown] id="next" tags=["task"]
# Next: chapter [5 · Message groups](../notebooks/05-message-groups.ipynb).
