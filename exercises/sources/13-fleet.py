# %% [markdown] id="title"
# # Exercises 13 · A whole fleet
#
# *20 minutes. After chapter 13; neither Spark nor Java is needed.*
#
# Write each function in place of `raise NotImplementedError`. Its check runs it beside the engine, on
# several cases, and compares the results. With the buttons below a check you get a hint, or see the case
# that failed in a lab.

# %% id="setup"
import qflow as qf

# %% [markdown] id="how_many_parts-task"
# ## What belongs together
#
# You are given who touches what: a list of pairs of a client and a queue. Return into how many parts the work
# can be split so that no part ever influences another. A client and a queue may have the same name; they are
# still two things.


# %% id="how_many_parts"
def how_many_parts(touches):
    # BEGIN SOLUTION
    parts = []
    for client, queue in touches:
        members = {("client", client), ("queue", queue)}
        joined = [part for part in parts if part & members]
        parts = [part for part in parts if not part & members]
        parts.append(members.union(*joined))
    return len(parts)
    # END SOLUTION


# %% id="how_many_parts-check"
qf.check(how_many_parts)

# %% [markdown] id="how_many_parts-why" tags=["solution"]
# **Why.** A transfer is complete only when every queue it went to has released it (CM-03), so a producer
# carries the effect of one queue to the next; so does a consumer of two queues. What hangs together, over
# any number of steps, has one common history.

# %% [markdown] id="busiest_worker-task"
# ## Who is done last
#
# `events` says how many events each component has. They are given to the workers by size: the largest first,
# each to the worker that has least so far. A component stays whole. Return how many events the busiest worker
# has.


# %% id="busiest_worker"
def busiest_worker(events, workers):
    # BEGIN SOLUTION
    loads = [0] * workers
    for size in sorted(events.values(), reverse=True):
        loads[loads.index(min(loads))] += size
    return max(loads)
    # END SOLUTION


# %% id="busiest_worker-check"
qf.check(busiest_worker)

# %% [markdown] id="busiest_worker-why" tags=["solution"]
# **Why.** A queue's history is one sequence. More workers help until each has one component; from then on the
# largest decides, however many there are.

# %% [markdown] id="waited-task"
# ## What waiting adds up to
#
# An audit gives you the time of each hold and of its release, in seconds: pairs of begin and end. The end
# is `None` if the transfer was still held when the log ended. Return for how long the transfers have
# waited, all taken together.


# %% id="waited"
def waited(holds, log_end):
    # BEGIN SOLUTION
    return sum((log_end if end is None else end) - begin for begin, end in holds)
    # END SOLUTION


# %% id="waited-check"
qf.check(waited)

# %% [markdown] id="waited-why" tags=["solution"]
# **Why.** A held transfer fills a place in its producer's window until the queue releases it (FC-15,
# FC-17). Ten transfers that wait for a second cost ten. In the recorded fleet the queue that turned ON only
# once is among the worst, because of transfers that it never released.

# %% id="progress" tags=["task"]
qf.show_progress()

# %% [markdown] id="next" tags=["task"]
# Next: chapter [14 · Under the hood](../notebooks/14-under-the-hood.ipynb).
