# %% [markdown] id="title"
# # Path: I write consumers
#
# *2 hours, for those who write programs that receive messages.*
#
# At the end you can keep the order of related messages with several consumers, and settle each message in
# the right way.
#
# 1. [0 · A tour in ten minutes](00-tour.ipynb), **10 minutes**. So that the words are the same.
# 2. [5 · Message groups](05-message-groups.ipynb), **35 minutes**. All of it, with the lab.
# 3. [6 · Well-behaved consumers](06-well-behaved-consumers.ipynb), **35 minutes**. All of it: this is your
#    chapter.
# 4. [9 · Other queues](09-other-queues.ipynb), **20 minutes**. *Ring*, *Last value* and *The surprise*: what
#    can be taken out of your hands.
# 5. [3 · Held completions](03-held-completions.ipynb), **15 minutes**. *The naive way* and *What lets a held
#    transfer go*: what your accept means to others.
# 6. [12 · Reading your own broker](12-reading-your-broker.ipynb), **10 minutes**. Only *Why?*: the chain of
#    reasons usually ends at a consumer.
#
# If your program also sends, go on with chapters 1 and 4. If it speaks AMQP 1.0, put it to the test itself:
# [15 · Your own clients](15-your-own-clients.ipynb). And before you trust what you know of groups, break it
# on purpose: [16 · Break it](16-break-it.ipynb).

# %% [markdown] id="ready-text"
# ## Is everything here?
#
# Run this cell first. It looks for the chapters of this path and adds up their minutes.

# %% id="ready"
import qflow as qf

PATH = {
    "00-tour": 10,
    "05-message-groups": 35,
    "06-well-behaved-consumers": 35,
    "09-other-queues": 20,
    "03-held-completions": 15,
    "12-reading-your-broker": 10,
}
missing = [chapter for chapter in PATH if not (qf.kit_path("notebooks") / f"{chapter}.ipynb").exists()]
print(f"{len(PATH)} chapters, {sum(PATH.values())} minutes; missing: {', '.join(missing) or 'none'}")

assert not missing

# %% [markdown] id="other"
# ## Other paths
#
# [45 minutes](91-path-45-minutes.ipynb) · [half a day](92-path-half-day.ipynb) · [a
# day](93-path-full-day.ipynb) · [I run brokers](94-path-i-run-brokers.ipynb)
