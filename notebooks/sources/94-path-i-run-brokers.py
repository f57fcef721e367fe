# %% [markdown] id="title"
# # Path: I run brokers
#
# *3 hours, for operators and administrators.*
#
# At the end you can choose limits, thresholds and alerts, read statistics, and find out why producers were
# blocked.
#
# 1. [0 · A tour in ten minutes](00-tour.ipynb), **16 minutes**. So that the words are the same.
# 2. [1 · Thresholds](01-thresholds.ipynb), **28 minutes**.
# 3. Break, **10 minutes**.
# 4. [2 · Bytes, counts and both](02-bytes-and-counts.ipynb), **9 minutes**. Only: *The naive way: think in
#    messages only*, *What is a byte?*, *The surprise: a unit that is switched off can still keep you
#    waiting*.
# 5. [4 · Capacity: from 101 to 165](04-capacity.ipynb), **10 minutes**. Only: *Predict before you run*, *The
#    naive way: the stop threshold is where it stops*, *Discover the law*, *The sizing rule*.
# 6. [7 · Configuration in all its spellings](07-configuration.ipynb), **24 minutes**. All of it: this is your
#    chapter.
# 7. [Exercises 7](../exercises/07-configuration.ipynb), **13 minutes**: `switched_off` and `is_accepted`.
# 8. Break, **10 minutes**.
# 9. [8 · Several queues: fan-out, one slow subscriber, one session each](08-several-queues.ipynb), **21
#    minutes**. The effect of one slow subscriber on the others.
# 10. [9 · Other queues: ring, last value, priority, self-destruct](09-other-queues.ipynb), **6 minutes**.
#     Only: *Ring: the oldest goes*, *Self-destruct: all or nothing*. The losses, and the clients that
#     notice.
# 11. [12 · Reading your own broker](12-reading-your-broker.ipynb), **31 minutes**. May be skipped: *How
#     sure is that?*, *Write it down, and look later*. This is your chapter, too.
# 12. Questions, **2 minutes**.
#
# The minutes suit a slow reader, with time for each cell, guess and lab; faster readers have the optional
# sections.
#
# Keep chapter 11 for the day when the manual and the broker disagree.

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
    "07-configuration",
    "08-several-queues",
    "09-other-queues",
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
# day](93-path-full-day.ipynb) · [I write consumers](95-path-i-write-consumers.ipynb)
