# %% [markdown] id="title"
# # Path: 45 minutes
#
# *45 minutes, for a lesson, or for one who wants to know what this is about.*
#
# At the end you can say when a queue makes its producers wait, how deep it can get, and what keeps the order
# of a group.
#
# 1. [0 · A tour in ten minutes](00-tour.ipynb), **10 minutes**. Read it together, run every cell. Let
#    everybody write down the one guess.
# 2. [1 · Thresholds](01-thresholds.ipynb), **20 minutes**. Up to *Back to the lab*; let everybody move one
#    slider. Leave *What the real broker did* as homework, or show its picture.
# 3. [5 · Message groups](05-message-groups.ipynb), **15 minutes**. *The naive way*, *The mechanism*, and *A
#    does not block B*. Stop there.
#
# If there are five minutes left: the table *Discover the law* in chapter 4 needs no more than that.

# %% [markdown] id="ready-text"
# ## Is everything here?
#
# Run this cell first. It looks for the chapters of this path and adds up their minutes.

# %% id="ready"
import qflow as qf

PATH = {"00-tour": 10, "01-thresholds": 20, "05-message-groups": 15}
missing = [chapter for chapter in PATH if not (qf.kit_path("notebooks") / f"{chapter}.ipynb").exists()]
print(f"{len(PATH)} chapters, {sum(PATH.values())} minutes; missing: {', '.join(missing) or 'none'}")

assert not missing

# %% [markdown] id="other"
# ## Other paths
#
# [half a day](92-path-half-day.ipynb) · [a day](93-path-full-day.ipynb) · [I run
# brokers](94-path-i-run-brokers.ipynb) · [I write consumers](95-path-i-write-consumers.ipynb)
