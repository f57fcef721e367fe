# %% [markdown] id="title"
# # Exercises 2 · Bytes and counts
#
# *25 minutes. After chapter 2.*
#
# Write each function in place of `raise NotImplementedError`. Its check runs it beside the engine, on
# several cases, and compares the results. With the buttons below a check you get a hint, or see the case
# that failed in a lab.

# %% id="setup"
import qflow as qf

# %% [markdown] id="message_bytes-task"
# ## What a byte is
#
# A message goes to an exchange with a routing key, and has `content` bytes of content. It has no other
# properties. How many bytes does the broker count for it? (The default exchange has the name `""`.)


# %% id="message_bytes"
def message_bytes(exchange, routing_key, content):
    # BEGIN SOLUTION
    return 8 + (1 + len(exchange)) + (1 + len(routing_key)) + content
    # END SOLUTION


# %% id="message_bytes-check"
qf.check(message_bytes)

# %% [markdown] id="message_bytes-why" tags=["solution"]
# **Why.** The encoded header counts: 8 bytes for the delivery properties, and each name with one byte for its
# length (DQ-05 … DQ-08). The documents speak of content only, which was so until 2013 (DQ-09).

# %% [markdown] id="states_both-task"
# ## Both units at once
#
# The manual's second example: a queue of at most 5,000 messages and 10 KB stops above 4,000 messages or 8 KB,
# and resumes below 3,000 messages and 6 KB. `stop` and `resume` are pairs (messages, bytes). `levels` lists
# how many messages and bytes were on the queue after each step, also as pairs. Return the states.


# %% id="states_both"
def states_both(levels, stop, resume):
    # BEGIN SOLUTION
    states, state = [], "OFF"
    for messages, volume in levels:
        if messages > stop[0] or volume > stop[1]:
            state = "ON"
        elif messages < resume[0] and volume < resume[1]:
            state = "OFF"
        states.append(state)
    return states
    # END SOLUTION


# %% id="states_both-check"
qf.check(states_both)

# %% [markdown] id="states_both-why" tags=["solution"]
# **Why.** Either unit turns it ON, both have to be satisfied to turn it OFF (FC-14, FC-16). The queue does
# not remember which unit it was.

# %% [markdown] id="last_left-task"
# ## The unit that was switched off
#
# A queue has `qpid.max_count`, `qpid.flow_stop_count` 0 (no stop in messages), a stop threshold in bytes, and
# `qpid.flow_resume_size`. It is full of messages of 100 bytes each, and ON because of the bytes. A consumer
# takes one message after the other. How many are left when it turns OFF?


# %% id="last_left"
def last_left(max_count, resume_size):
    # BEGIN SOLUTION
    resume_count = int(max_count * 0.7)
    below_bytes = (resume_size - 1) // 100
    return min(resume_count - 1, below_bytes)
    # END SOLUTION


# %% id="last_left-check"
qf.check(last_left)

# %% [markdown] id="last_left-why" tags=["solution"]
# **Why.** Switching the stop in messages off leaves the *default resume* in messages behind, 70 % of the
# limit, and OFF needs both units (FC-09). With a limit of 100 the queue turns OFF only
# at 69 messages, however small the bytes are by then.

# %% id="progress" tags=["task"]
qf.show_progress()

# %% [markdown] id="next" tags=["task"]
# Next: chapter [3 · Held completions](../notebooks/03-held-completions.ipynb).
