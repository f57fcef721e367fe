# %% [markdown] id="title"
# # Exercises 7 · Configuration
#
# *30 minutes. After chapter 7.*
#
# Write each function in place of `raise NotImplementedError`. Its check runs it beside the engine, on
# several cases, and compares the results. With the buttons below a check you get a hint, or see the case
# that failed in a lab.

# %% id="setup"
from math import floor

import qflow as qf

# %% [markdown] id="default_thresholds-task"
# ## From percent to messages
#
# A broker is started with `--default-flow-stop-threshold` and `--default-flow-resume-threshold`. A queue is
# declared with nothing but a limit in messages. Return its stop and its resume threshold. The manual's
# example has 90 and 75 %, and comes out even; not all do.


# %% id="default_thresholds"
def default_thresholds(limit, stop_percent, resume_percent):
    # BEGIN SOLUTION
    return floor(limit * (stop_percent / 100) + 0.5), floor(limit * (resume_percent / 100))
    # END SOLUTION


# %% id="default_thresholds-check"
qf.check(default_thresholds)

# %% [markdown] id="default_thresholds-why" tags=["solution"]
# **Why.** Stop is rounded half up, resume is cut off, both in floating point (FC-02). So 70 % of 90 is 62:
# the computer's 0.7 is a little less than seven tenths (FC-04).

# %% [markdown] id="declare_arguments-task"
# ## Thresholds in queue.declare
#
# Return the arguments of `queue.declare`, as a dict, for a queue with a limit, a stop and a resume threshold,
# all in messages.


# %% id="declare_arguments"
def declare_arguments(limit, stop, resume):
    # BEGIN SOLUTION
    return {"qpid.max_count": limit, "qpid.flow_stop_count": stop, "qpid.flow_resume_count": resume}
    # END SOLUTION


# %% id="declare_arguments-check"
qf.check(declare_arguments)

# %% [markdown] id="declare_arguments-why" tags=["solution"]
# **Why.** Keys are spelled exactly so. A key that the broker does not know is no error: it is ignored, and
# you have a queue without the setting (CF-02). The same with the tool: `qpid-config add queue q
# --max-queue-count 1000 --flow-stop-count 900 --flow-resume-count 500`.

# %% [markdown] id="tool_line-task"
# ## The same with qpid-config
#
# Return the line with which you make that queue from a shell, as a text; it begins with
# `qpid-config add queue`.


# %% id="tool_line"
def tool_line(queue, limit, stop, resume):
    # BEGIN SOLUTION
    return (
        f"qpid-config add queue {queue} --max-queue-count={limit}"
        f" --flow-stop-count={stop} --flow-resume-count={resume}"
    )
    # END SOLUTION


# %% id="tool_line-check"
qf.check(tool_line)

# %% [markdown] id="tool_line-why" tags=["solution"]
# **Why.** The tool has options of its own and sends the broker's keys. Unlike the broker it refuses unknown
# keys.

# %% [markdown] id="broker_start-task"
# ## Starting the broker with other defaults
#
# The manuals have two examples of starting `qpidd`: with thresholds of 90 and 75 percent, and with another
# name for the group of messages without an identifier. One of the two does not work as printed. Return the
# options for both together, as a list of texts.


# %% id="broker_start"
def broker_start(stop, resume, group):
    # BEGIN SOLUTION
    return [
        f"--default-flow-stop-threshold={stop}",
        f"--default-flow-resume-threshold={resume}",
        f"--default-message-group={group}",
    ]
    # END SOLUTION


# %% id="broker_start-check"
qf.check(broker_start)

# %% [markdown] id="broker_start-why" tags=["solution"]
# **Why.** The printed example says `--default-msg-group`, an option that never was; the text beside it has
# the right name (MG-05, and chapter 11). A broker with an option it does not know does not start.

# %% [markdown] id="switched_off-task"
# ## Switching flow control off, for one queue
#
# Return declare arguments for a queue with a limit of `limit` messages and `volume` bytes, both enforced by
# refusing messages, and **no** flow control.


# %% id="switched_off"
def switched_off(limit, volume):
    # BEGIN SOLUTION
    return {
        "qpid.max_count": limit,
        "qpid.max_size": volume,
        "qpid.flow_stop_count": 0,
        "qpid.flow_stop_size": 0,
    }
    # END SOLUTION


# %% id="switched_off-check"
qf.check(switched_off)

# %% [markdown] id="switched_off-why" tags=["solution"]
# **Why.** There is a stop threshold for each unit; both have to be 0 (FC-08).

# %% [markdown] id="broker_without_defaults-task"
# ## Switching the defaults off, for the whole broker
#
# Return a dict with two keys. `"broker"`: the options a broker is started with so that queues have no flow
# control by default (as keyword arguments of `BrokerOptions`, that is with underscores). `"queue"`: declare
# arguments of one queue on that broker which shall have flow control all the same, with a limit of `limit`
# messages and a stop threshold of `manual`.


# %% id="broker_without_defaults"
def broker_without_defaults(limit, manual):
    # BEGIN SOLUTION
    return {
        "broker": {"default_flow_stop_threshold": 0, "default_flow_resume_threshold": 0},
        "queue": {"qpid.max_count": limit, "qpid.flow_stop_count": manual},
    }
    # END SOLUTION


# %% id="broker_without_defaults-check"
qf.check(broker_without_defaults)

# %% [markdown] id="broker_without_defaults-why" tags=["solution"]
# **Why.** Both percentages have to be 0: with stop 0 and resume left at 70 the broker does not start (FC-10).
# Only defaults are off; a queue may still ask for thresholds of its own.

# %% [markdown] id="is_accepted-task"
# ## A legal stop value that is refused
#
# `arguments` are declare arguments without their `qpid.`: some of `max_count`, `flow_stop_count` and
# `flow_resume_count`. The broker is started with its defaults. Does it accept the queue? Return `True` or
# `False`.


# %% id="is_accepted"
def is_accepted(arguments):
    # BEGIN SOLUTION
    limit = arguments.get("max_count", 0)
    stop = arguments["flow_stop_count"]
    resume = arguments.get("flow_resume_count", floor(limit * 0.7))
    if stop == 0:
        return True
    return resume <= stop and (limit == 0 or stop <= limit)
    # END SOLUTION


# %% id="is_accepted-check"
qf.check(is_accepted)

# %% [markdown] id="is_accepted-why" tags=["solution"]
# **Why.** A resume threshold that you do not give has its default, and takes part in the check: stop 5 with a
# limit of 100 is refused, because the default resume is 70 (FC-07). Stop may equal the limit, although the
# error text says "must be less than" (FC-05).

# %% [markdown] id="is_stopped-task"
# ## What the statistic is called
#
# A program asks the broker's management about a queue, and gets its `statistics` as a dict, such as `{"name":
# "orders", "msgDepth": 3, …}`. Is flow control ON? Return `True` or `False`. In one place the manual calls
# this statistic `flowState`, in another `flowStopped`.


# %% id="is_stopped"
def is_stopped(statistics):
    # BEGIN SOLUTION
    return statistics["flowStopped"]
    # END SOLUTION


# %% id="is_stopped-check"
qf.check(is_stopped)

# %% [markdown] id="is_stopped-why" tags=["solution"]
# **Why.** The statistic is called `flowStopped`; nothing is called `flowState` (CM-15). The counter beside
# it, `flowStoppedCount`, never goes back, so it does not tell whether flow control is ON *now* (FC-19).

# %% id="progress" tags=["task"]
qf.show_progress()

# %% [markdown] id="next" tags=["task"]
# Next: chapter [8 · Several queues](../notebooks/08-several-queues.ipynb).
