# %% [markdown] id="title"
# # Path: half a day
#
# *3½ hours, with breaks, for those who will have to do with such queues.*
#
# At the end you can configure a queue so that it cannot overflow, and write a consumer that keeps the order.
#
# 1. [0 · A tour in ten minutes](00-tour.ipynb), **10 minutes**. The warm-up.
# 2. [1 · Thresholds](01-thresholds.ipynb), **30 minutes**. All of it. The lab takes longer than you think.
# 3. [2 · Bytes, counts and both](02-bytes-and-counts.ipynb), **20 minutes**. All of it.
# 4. [4 · Capacity: from 101 to 165](04-capacity.ipynb), **35 minutes**. All of it; the proof by machine is
#    the part people remember.
# 5. [5 · Message groups](05-message-groups.ipynb), **35 minutes**. All of it, with the lab.
# 6. [6 · Well-behaved consumers](06-well-behaved-consumers.ipynb), **30 minutes**. All of it. The lost
#    wake-up is worth ten minutes of talk.
# 7. [7 · Configuration in all its spellings](07-configuration.ipynb), **30 minutes**. Up to *Switching it
#    off*; the rest to look things up later.
#
# Breaks after chapters 2 and 5.

# %% [markdown] id="ready-text"
# ## Is everything here?
#
# Run this cell first. It looks for the chapters of this path and adds up their minutes.

# %% id="ready"
import qflow as qf

PATH = {
    "00-tour": 10,
    "01-thresholds": 30,
    "02-bytes-and-counts": 20,
    "04-capacity": 35,
    "05-message-groups": 35,
    "06-well-behaved-consumers": 30,
    "07-configuration": 30,
}
missing = [chapter for chapter in PATH if not (qf.kit_path("notebooks") / f"{chapter}.ipynb").exists()]
print(f"{len(PATH)} chapters, {sum(PATH.values())} minutes; missing: {', '.join(missing) or 'none'}")

assert not missing

# %% [markdown] id="other"
# ## Other paths
#
# [45 minutes](91-path-45-minutes.ipynb) · [a day](93-path-full-day.ipynb) · [I run
# brokers](94-path-i-run-brokers.ipynb) · [I write consumers](95-path-i-write-consumers.ipynb)
