# %% [markdown] id="title"
# # Exercises 1 · Thresholds
#
# *20 minutes. After chapter 1.*
#
# Every exercise asks for one function. Write it in place of `raise NotImplementedError`. `qf.check(...)` runs
# it on several cases, runs the engine on the same cases, and compares the results. If your mistake is a
# common one, the check names the misunderstanding behind it. Below a check there are two buttons. One gives a
# hint, and with each press the next one: the first points to the idea, the second gives the rule, the third
# is almost the answer. The other opens the failed case in a lab, which shows the broker's behaviour.

# %% id="setup"
import qflow as qf

# %% [markdown] id="on_and_off-task"
# ## At which message ON, at which OFF
#
# A queue may hold `limit` messages. Messages arrive one by one until flow control turns ON; then a consumer
# takes one after the other until it turns OFF. How many messages are on the queue at these two moments?
#
# Return the two numbers. The manual's example: limit 1,000, stop 900, resume 500.


# %% id="on_and_off"
def on_and_off(limit, stop, resume):
    # BEGIN SOLUTION
    return stop + 1, resume - 1
    # END SOLUTION


# %% id="on_and_off-check"
qf.check(on_and_off)

# %% [markdown] id="on_and_off-why" tags=["solution"]
# **Why.** ON means *more than* stop, OFF means *fewer than* resume (FC-14, FC-16). Equal is neither. The
# limit plays no part, as long as it leaves room for one message above stop.

# %% [markdown] id="flow_states-task"
# ## The state after each step
#
# `depths` is how many messages were on the queue after each step. Between two steps messages only arrive, or
# only leave. Return the state after each step, `"ON"` or `"OFF"`, as a list of the same length. At the
# beginning the queue is empty.


# %% id="flow_states"
def flow_states(depths, stop, resume):
    # BEGIN SOLUTION
    states, state = [], "OFF"
    for depth in depths:
        if depth > stop:
            state = "ON"
        elif depth < resume:
            state = "OFF"
        states.append(state)
    return states
    # END SOLUTION


# %% id="flow_states-check"
qf.check(flow_states)

# %% [markdown] id="flow_states-why" tags=["solution"]
# **Why.** The depth alone does not tell the state: at 600 of the example it is OFF on the way up and ON on
# the way down. So the state has to be remembered. A queue begins OFF (FC-13).

# %% [markdown] id="activations-task"
# ## What flowStoppedCount counts
#
# The documentation says that the statistic `flowStoppedCount` counts "each time the stop threshold is
# exceeded". `changes` says how many messages arrived (positive) or left (negative), one after the other;
# the queue is empty at first. Return `flowStoppedCount` at the end.


# %% id="activations"
def activations(changes, stop, resume):
    # BEGIN SOLUTION
    count = depth = 0
    is_on = False
    for change in changes:
        depth += change
        if not is_on and depth > stop:
            is_on = True
            count += 1
        elif is_on and depth < resume:
            is_on = False
    return count
    # END SOLUTION


# %% id="activations-check"
qf.check(activations)

# %% [markdown] id="activations-why" tags=["solution"]
# **Why.** It counts how often flow control turned ON (FC-19). Passing stop again while it is still ON is
# nothing new, and turning OFF is not counted. Within one change messages move one way only, so it is enough
# to look at the depth after each.

# %% id="progress" tags=["task"]
qf.show_progress()

# %% [markdown] id="next" tags=["task"]
# Next: chapter [2 · Bytes, counts and both](../notebooks/02-bytes-and-counts.ipynb).
