# %% [markdown] id="title"
# # Exercises 5 · Message groups
#
# *40 minutes. After chapter 5.*
#
# Write each function in place of `raise NotImplementedError`. Its check runs it beside the engine, on
# several cases, and compares the results. With the buttons below a check you get a hint, or see the case
# that failed in a lab.

# %% id="setup"
import qflow as qf

# %% [markdown] id="second_gets-task"
# ## The shopping cart
#
# A queue with message groups holds the messages `labels`; the part before the dash is the group, so that
# `cart1-add` and `cart1-remove` belong together. The first consumer fetches one message. If `first_accepts`,
# it also accepts it. Then a second consumer fetches one. Return its label, or `None` if it gets nothing.


# %% id="second_gets"
def second_gets(labels, first_accepts):
    # BEGIN SOLUTION
    owned = None if first_accepts else labels[0].partition("-")[0]
    for label in labels[1:]:
        if label.partition("-")[0] != owned:
            return label
    return None
    # END SOLUTION


# %% id="second_gets-check"
qf.check(second_gets)

# %% [markdown] id="second_gets-why" tags=["solution"]
# **Why.** A consumer that acquires a message of a free group owns the group until all it holds of it is
# settled (MG-07, MG-08). Other groups are not held up (MG-12). So `remove` cannot overtake `add`, and B is
# served although it is behind A. *May* pass it on, says the document: a consumer that has accepted everything
# owns nothing, and the next message goes to the consumer that looks first.

# %% [markdown] id="shares-task"
# ## The first N messages
#
# The queue holds `labels`. A first consumer comes with a prefetch, then a second one with its own; neither
# accepts anything. Return two lists: the messages of each.


# %% id="shares"
def shares(labels, first_prefetch, second_prefetch):
    # BEGIN SOLUTION
    first = labels[:first_prefetch]
    owned = {label.partition("-")[0] for label in first}
    free = [label for label in labels if label.partition("-")[0] not in owned]
    return first, free[:second_prefetch]
    # END SOLUTION


# %% id="shares-check"
qf.check(shares)

# %% [markdown] id="shares-why" tags=["solution"]
# **Why.** The first consumer finds everything free and takes the first N messages, of whatever groups; it may
# own several (MG-14). The rest of these groups waits for it, on the queue.

# %% [markdown] id="next_gets-task"
# ## A-1 behind A-2
#
# A consumer holds the first `held` messages of group A, … Behind them are `more` further ones. It
# settles the first few as `actions` say (`"accept"`, `"release"`, `"reject"`; possibly fewer actions than
# messages held). Then another consumer fetches all it can get, without accepting. Return its labels in
# order.


# %% id="next_gets"
def next_gets(held, actions, more):
    # BEGIN SOLUTION
    if len(actions) < held:
        return []
    released = [f"A-{n}" for n, action in enumerate(actions, 1) if action == "release"]
    return released + [f"A-{n}" for n in range(held + 1, held + more + 1)]
    # END SOLUTION


# %% id="next_gets-check"
qf.check(next_gets)

# %% [markdown] id="next_gets-why" tags=["solution"]
# **Why.** As long as it holds one message of A, the group is its own (MG-09). A released message goes back to
# its old place (CN-14). So release A-1, accept A-2, and the next consumer processes A-1 *after* A-2, in spite
# of all the broker does (MG-18).

# %% [markdown] id="give_up-task"
# ## Keep the order when you cannot go on
#
# *A design task: more than one answer is right.* Your consumer holds messages of one group. It has accepted
# those before `target`, cannot process `target`, and could process the rest. `held` are the labels it still
# holds, `target` first. Settle them with `consumer.accept(…)`, `consumer.release(…)`, `consumer.reject(…)`
# (each takes labels), so that nothing is processed out of order, nothing is lost that could be processed, and
# nothing waits for ever.


# %% id="give_up"
def give_up(consumer, held, target):
    # BEGIN SOLUTION
    consumer.release(*held)
    # END SOLUTION


# %% id="give_up-check"
qf.check(give_up)

# %% [markdown] id="give_up-why" tags=["solution"]
# **Why.** Either release everything you hold, or discard the one message with reject and process the rest;
# the document names both. What you must not do is release one and accept its successors (MG-18).

# %% [markdown] id="group_id-task"
# ## Which group is it?
#
# The queue's `qpid.group_header_key` is `key`; the broker's `default-message-group` is `default`. Return the
# name of the group that a message with these application headers belongs to.


# %% id="group_id"
def group_id(headers, key, default):
    # BEGIN SOLUTION
    value = headers.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        return str((value + 2**31) % 2**32 - 2**31)
    if isinstance(value, str) and value:
        return value
    return default
    # END SOLUTION


# %% id="group_id-check"
qf.check(group_id)

# %% [markdown] id="group_id-why" tags=["solution"]
# **Why.** Text names a group, and so do whole numbers, by way of 32 bits (MG-04). Everything else, nothing
# included, is the default group, and that is a group like any other: its messages wait for each other
# (MG-05).

# %% [markdown] id="may_have_groups-task"
# ## Where groups are refused
#
# `arguments` are declare arguments without their `qpid.`: some of `group_header_key`, `shared_msg_group`,
# `last_value_queue_key` (a last-value queue), `priorities` (a priority queue), `policy_type` and `max_count`.
# Does the broker accept a queue with groups declared like this? Return `True` or `False`.


# %% id="may_have_groups"
def may_have_groups(arguments):
    # BEGIN SOLUTION
    has_both = "group_header_key" in arguments and "shared_msg_group" in arguments
    return has_both and "last_value_queue_key" not in arguments and "priorities" not in arguments
    # END SOLUTION


# %% id="may_have_groups-check"
qf.check(may_have_groups)

# %% [markdown] id="may_have_groups-why" tags=["solution"]
# **Why.** A last-value queue replaces messages and a priority queue reorders them, so neither could promise
# the order of a group; the broker refuses them with 542 (MG-01). A ring is accepted, and chapter 9 shows what
# it does to a group.

# %% [markdown] id="group_arguments-task"
# ## Groups in queue.declare
#
# Return the declare arguments of a queue whose messages are grouped by the application header `header`.


# %% id="group_arguments"
def group_arguments(header):
    # BEGIN SOLUTION
    return {"qpid.group_header_key": header, "qpid.shared_msg_group": 1}
    # END SOLUTION


# %% id="group_arguments-check"
qf.check(group_arguments)

# %% [markdown] id="group_arguments-why" tags=["solution"]
# **Why.** Both are needed (MG-01). On a queue without the second one the broker refuses the first.

# %% [markdown] id="group_line-task"
# ## Groups with qpid-config
#
# Return the line with which you make that queue from a shell, as a text; it begins with
# `qpid-config add queue`.


# %% id="group_line"
def group_line(queue, header):
    # BEGIN SOLUTION
    return f"qpid-config add queue {queue} --group-header={header} --shared-groups"
    # END SOLUTION


# %% id="group_line-check"
qf.check(group_line)

# %% [markdown] id="group_line-why" tags=["solution"]
# **Why.** The tool's options have names of their own, and the second is a switch without a value.

# %% [markdown] id="group_address-task"
# ## Groups in an address string
#
# Return an address string with which a client makes that queue if it is not there yet.


# %% id="group_address"
def group_address(queue, header):
    # BEGIN SOLUTION
    arguments = f"'qpid.group_header_key': '{header}', 'qpid.shared_msg_group': 1"
    return f"{queue}; {{create: always, node: {{x-declare: {{arguments: {{{arguments}}}}}}}}}"
    # END SOLUTION


# %% id="group_address-check"
qf.check(group_address)

# %% [markdown] id="group_address-why" tags=["solution"]
# **Why.** An address says what to do if the queue is missing (`create`), and what to declare then: the same
# arguments as above, inside `node`, `x-declare`, `arguments` (CF-14).

# %% id="progress" tags=["task"]
qf.show_progress()

# %% [markdown] id="next" tags=["task"]
# Next: chapter [6 · Well-behaved consumers](../notebooks/06-well-behaved-consumers.ipynb).
