# %% [markdown] id="title"
# # Path: I write consumers
#
# *2 hours, for those who write programs that receive messages.*
#
# At the end you can keep the order of related messages with several consumers, and settle each message in
# the right way.
#
# 1. [0 · A tour in ten minutes](00-tour.ipynb), **16 minutes**. So that the words are the same.
# 2. [5 · Message groups: the shopping cart](05-message-groups.ipynb), **32 minutes**. May be skipped:
#    *Another name for the default group*, *How many groups?*.
# 3. [Exercises 5](../exercises/05-groups.ipynb), **12 minutes**: `next_gets` and `give_up`.
# 4. Break, **10 minutes**.
# 5. [6 · Well-behaved consumers](06-well-behaved-consumers.ipynb), **21 minutes**. All of it: this is your
#    chapter.
# 6. [Exercises 6](../exercises/06-consumers.ipynb), **10 minutes**: `idle_gets` and `turns`.
# 7. [9 · Other queues: ring, last value, priority, self-destruct](09-other-queues.ipynb), **7 minutes**.
#    Only: *Ring: the oldest goes*, *Last value: one for each key*, *The surprise: a ring breaks the promise
#    of groups*. Messages that the broker can take from you.
# 8. [3 · Held completions: what the producer sees](03-held-completions.ipynb), **6 minutes**. Only: *The
#    naive way: no answer means it did not arrive*, *What releases a held transfer*. What your accept means to
#    others.
# 9. [12 · Reading your own broker](12-reading-your-broker.ipynb), **3 minutes**. Only: *Why?*. The chain of
#    reasons usually ends at a consumer.
# 10. Questions, **3 minutes**.
#
# The minutes suit a slow reader, with time for each cell, guess and lab; faster readers have the optional
# sections.
#
# If your program also sends, continue with chapters 1 and 4. If it speaks AMQP 1.0, put it to the test
# itself: [15 · Your own clients](15-your-own-clients.ipynb). And before you trust your knowledge of groups,
# break them on purpose: [16 · Break it](16-break-it.ipynb).

# %% [markdown] id="ready-text"
# ## Is everything here?
#
# Run this cell first. It looks for the chapters of this path.

# %% id="ready"
import qflow as qf

PATH = [
    "00-tour",
    "05-message-groups",
    "06-well-behaved-consumers",
    "09-other-queues",
    "03-held-completions",
    "12-reading-your-broker",
]
missing = [chapter for chapter in PATH if not (qf.kit_path("notebooks") / f"{chapter}.ipynb").exists()]
print(f"{len(PATH)} chapters; missing: {', '.join(missing) or 'none'}")

assert not missing

# %% [markdown] id="other"
# ## Other paths
#
# [45 minutes](91-path-45-minutes.ipynb) · [90 minutes](96-path-90-minutes.ipynb) ·
# [half a day](92-path-half-day.ipynb) · [a
# day](93-path-full-day.ipynb) · [I run brokers](94-path-i-run-brokers.ipynb)
