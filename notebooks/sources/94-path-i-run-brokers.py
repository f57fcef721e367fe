# %% [markdown] id="title"
# # Path: I run brokers
#
# *3 hours, for operators and administrators.*
#
# At the end you can choose limits, thresholds and alerts, read statistics, and find out why producers stood
# still.
#
# 1. [0 · A tour in ten minutes](00-tour.ipynb), **10 minutes**. So that the words are the same.
# 2. [1 · Thresholds](01-thresholds.ipynb), **25 minutes**. All of it.
# 3. [2 · Bytes, counts and both](02-bytes-and-counts.ipynb), **15 minutes**. *The naive way*, *What is a
#    byte?*, and *The surprise*.
# 4. [4 · Capacity: from 101 to 165](04-capacity.ipynb), **20 minutes**. *The naive way*, *Discover the law*,
#    *The sizing rule*.
# 5. [7 · Configuration in all its spellings](07-configuration.ipynb), **30 minutes**. All of it: this is
#    your chapter.
# 6. [8 · Several queues](08-several-queues.ipynb), **20 minutes**. What one slow subscriber does to the
#    others.
# 7. [9 · Other queues](09-other-queues.ipynb), **15 minutes**. *Ring* and *Self-destruct*: what is lost, and
#    who notices.
# 8. [12 · Reading your own broker](12-reading-your-broker.ipynb), **40 minutes**. All of it: this is your
#    chapter too.
#
# Keep chapter 11 for the day when the manual and the broker disagree.

# %% [markdown] id="ready-text"
# ## Is everything here?
#
# Run this cell first. It looks for the chapters of this path and adds up their minutes.

# %% id="ready"
import qflow as qf

PATH = {
    "00-tour": 10,
    "01-thresholds": 25,
    "02-bytes-and-counts": 15,
    "04-capacity": 20,
    "07-configuration": 30,
    "08-several-queues": 20,
    "09-other-queues": 15,
    "12-reading-your-broker": 40,
}
missing = [chapter for chapter in PATH if not (qf.kit_path("notebooks") / f"{chapter}.ipynb").exists()]
print(f"{len(PATH)} chapters, {sum(PATH.values())} minutes; missing: {', '.join(missing) or 'none'}")

assert not missing

# %% [markdown] id="other"
# ## Other paths
#
# [45 minutes](91-path-45-minutes.ipynb) · [half a day](92-path-half-day.ipynb) · [a
# day](93-path-full-day.ipynb) · [I write consumers](95-path-i-write-consumers.ipynb)
