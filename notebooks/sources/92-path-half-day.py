# %% [markdown] id="title"
# # Path: half a day
#
# *3½ hours, with breaks, for those who will have to do with such queues.*
#
# At the end you can configure a queue so that it cannot overflow, and write a consumer that keeps the order.
#
# 1. [0 · A tour in ten minutes](00-tour.ipynb), **16 minutes**. The warm-up.
# 2. [1 · Thresholds](01-thresholds.ipynb), **28 minutes**. All of it; the lab takes longer than you think.
# 3. [Exercises 1](../exercises/01-thresholds.ipynb), **13 minutes**: `on_and_off` and `flow_states`;
#    `activations` for quick readers.
# 4. Break, **15 minutes**.
# 5. [2 · Bytes, counts and both](02-bytes-and-counts.ipynb), **24 minutes**.
# 6. [4 · Capacity: from 101 to 165](04-capacity.ipynb), **23 minutes**. May be skipped: *The manual's
#    example, by hand*, *The map*, *What the real broker did*, *In a program: a thread that waits*. The proof
#    by machine is the part people remember.
# 7. [Exercises 4](../exercises/04-capacity.ipynb), **14 minutes**: `overflow` and `worst_depth`.
# 8. Break, **15 minutes**.
# 9. [5 · Message groups: the shopping cart](05-message-groups.ipynb), **25 minutes**. May be skipped: *Three
#    ways to ask for groups*, *Another name for the default group*, *How many groups?*, *What does order
#    cost?*, *What the real broker did*.
# 10. [6 · Well-behaved consumers](06-well-behaved-consumers.ipynb), **21 minutes**. The lost wake-up is worth
#     a talk.
# 11. [Exercises 5](../exercises/05-groups.ipynb), **11 minutes**: `next_gets` and `give_up`.
# 12. Questions, **5 minutes**.
#
# The minutes suit a slow reader, with time for each cell, guess and lab; faster readers have the optional
# sections. Chapter 7, with all spellings of a queue's settings, is for the evening.

# %% [markdown] id="ready-text"
# ## Is everything here?
#
# Run this cell first. It looks for the chapters of this path.

# %% id="ready"
import qflow as qf

PATH = [
    "00-tour",
    "01-thresholds",
    "02-bytes-and-counts",
    "04-capacity",
    "05-message-groups",
    "06-well-behaved-consumers",
]
missing = [chapter for chapter in PATH if not (qf.kit_path("notebooks") / f"{chapter}.ipynb").exists()]
print(f"{len(PATH)} chapters; missing: {', '.join(missing) or 'none'}")

assert not missing

# %% [markdown] id="other"
# ## Other paths
#
# [45 minutes](91-path-45-minutes.ipynb) · [90 minutes](96-path-90-minutes.ipynb) ·
# [a day](93-path-full-day.ipynb) · [I run
# brokers](94-path-i-run-brokers.ipynb) · [I write consumers](95-path-i-write-consumers.ipynb)
