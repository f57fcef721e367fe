# %% [markdown] id="title"
# # Exercises 12 · Design tasks
#
# *35 minutes. After chapters 4 and 12.*
#
# Here many answers are right. You make a choice, the engine runs it, also in the worst case, and the check
# says what happened. With the buttons below a check you get a hint, or see the case that failed in a lab.

# %% id="setup"
import qflow as qf

# %% [markdown] id="seconds_on-task"
# ## For how long was it ON?
#
# `lines` is a broker's log, with times to the second, all of one day; its last line is where it ends. Return
# for how many seconds the queue was ON. The two kinds of lines that matter:
#
#     2026-11-28 16:39:06 [Broker] info Queue "orders": has reached 40 … Producer flow control activated.
#     2026-11-28 16:39:10 [Broker] info Queue "orders": has drained … Producer flow control deactivated.


# %% id="seconds_on"
def seconds_on(lines, queue):
    # BEGIN SOLUTION
    def second(line):
        hours, minutes, seconds = line[11:19].split(":")
        return 3600 * int(hours) + 60 * int(minutes) + int(seconds)

    total, since = 0, None
    for line in lines:
        if f'Queue "{queue}": ' in line and "control activated" in line:
            since = second(line)
        elif f'Queue "{queue}": ' in line and "control deactivated" in line:
            total, since = total + second(line) - since, None
    return total if since is None else total + second(lines[-1]) - since
    # END SOLUTION


# %% id="seconds_on-check"
qf.check(seconds_on)

# %% [markdown] id="seconds_on-why" tags=["solution"]
# **Why.** Each spell lasts from its ON line to its OFF line, and a queue whose OFF line is missing is still
# ON when the log ends (FC-14, FC-16). `qf.BrokerLog.load(…)` does the same, for real logs of any length.

# %% [markdown] id="safe_stop-task"
# ## Room above the stop threshold
#
# A queue may hold `limit` messages. Its producers have these `capacities`. Choose a stop threshold (a whole
# number from 1) with which no producer is ever thrown out, and which still lets the queue be of use: not so
# low that twice as much would be safe too.


# %% id="safe_stop"
def safe_stop(limit, capacities):
    # BEGIN SOLUTION
    return limit - sum(capacities)
    # END SOLUTION


# %% id="safe_stop-check"
qf.check(safe_stop)

# %% [markdown] id="safe_stop-why" tags=["solution"]
# **Why.** At worst all windows fill while the depth is at stop. There is no overflow exactly if stop and
# all capacities together are not more than the limit (CAP-11). This is the highest safe answer.

# %% [markdown] id="share_the_room-task"
# ## Capacities for all producers
#
# Now the other way round: limit and stop are given, and you choose a capacity for each of `producers`
# producers. No producer may be refused, each needs at least 1, and at least 80 % of the room above stop
# should be used. Return a list.


# %% id="share_the_room"
def share_the_room(limit, stop, producers):
    # BEGIN SOLUTION
    each, rest = divmod(limit - stop, producers)
    return [each + 1] * rest + [each] * (producers - rest)
    # END SOLUTION


# %% id="share_the_room-check"
qf.check(share_the_room)

# %% [markdown] id="share_the_room-why" tags=["solution"]
# **Why.** The same law: the capacities may add up to limit - stop. They need not be equal; a producer that
# matters more may have more.

# %% [markdown] id="choose_thresholds-task"
# ## Never overflowing, and OFF at least 80 % of the time
#
# A shop: in every ten seconds the producers (with these `capacities`) send for two seconds, together
# `burst_rate` messages a second. One consumer packs 100 a second, all the time. The queue may hold `limit`
# messages. Return a stop and a resume threshold with which the queue never overflows, not even in a worse
# moment, and flow control is OFF for at least 80 % of twenty seconds.


# %% id="choose_thresholds"
def choose_thresholds(limit, capacities, burst_rate):
    # BEGIN SOLUTION
    stop = limit - sum(capacities)
    return stop, stop * 9 // 10
    # END SOLUTION


# %% id="choose_thresholds-check"
qf.check(choose_thresholds)

# %% [markdown] id="choose_thresholds-why" tags=["solution"]
# **Why.** As much as the capacities leave, so that bursts rarely reach it; and a resume threshold not far
# below, so that a stop does not outlast its reason. Much closer, and it would flicker (chapter 1).

# %% id="progress" tags=["task"]
qf.show_progress()

# %% [markdown] id="next" tags=["task"]
# Next: chapter [13 · A whole fleet](../notebooks/13-spark.ipynb).
