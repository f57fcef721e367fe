# %% [markdown] id="title"
# # Path: 90 minutes
#
# *90 minutes, with a break, for a team that begins to work with such queues.*
#
# At the end you can find the thresholds of a queue by hand, say what a held completion is, work out how deep
# a queue can get, and say who owns a group.
#
# 1. [1 · Thresholds](01-thresholds.ipynb), **17 minutes**. Only: *Predict before you run*, *The mechanism,
#    one message at a time*, *Why that stops a producer*, *Downwards*, *The surprise*, *Your predictions*.
# 2. [Exercises 1](../exercises/01-thresholds.ipynb), **7 minutes**: `on_and_off`, two to a laptop.
# 3. [3 · Held completions: what the producer sees](03-held-completions.ipynb), **14 minutes**. Only: *Predict
#    before you run*, *Watch what is held*, *The mechanism: numbered commands, and a set of those that are
#    complete*, *A sync waits for everything before it*, *What releases a held transfer*, *Your predictions*.
# 4. Break, **10 minutes**.
# 5. [4 · Capacity: from 101 to 165](04-capacity.ipynb), **15 minutes**. Only: *Predict before you run*,
#    *Watch it*, *Discover the law*, *The sizing rule*, *The manual's example, by hand*, *Your predictions*.
# 6. [Exercises 4](../exercises/04-capacity.ipynb), **6 minutes**: `worst_depth`, two to a laptop.
# 7. [5 · Message groups: the shopping cart](05-message-groups.ipynb), **14 minutes**. Only: *Predict before
#    you run*, *Watch it, then switch the groups off*, *The mechanism: a group has one owner at a time*, *A
#    does not block B*, *When exactly is a group free?*, *Your predictions*.
# 8. Questions, **7 minutes**.
#
# The minutes suit a slow reader, with time for each cell, guess and lab; faster readers have the omitted
# sections. Whoever leads a room through it has [a page of its own](teachers/ninety-minutes.md).

# %% [markdown] id="ready-text"
# ## Is everything here?
#
# Run this cell first. It looks for the chapters of this path.

# %% id="ready"
import qflow as qf

PATH = ["01-thresholds", "03-held-completions", "04-capacity", "05-message-groups"]
missing = [chapter for chapter in PATH if not (qf.kit_path("notebooks") / f"{chapter}.ipynb").exists()]
print(f"{len(PATH)} chapters; missing: {', '.join(missing) or 'none'}")

assert not missing

# %% [markdown] id="other"
# ## Other paths
#
# [45 minutes](91-path-45-minutes.ipynb) · [half a day](92-path-half-day.ipynb) · [a
# day](93-path-full-day.ipynb) · [I run brokers](94-path-i-run-brokers.ipynb) · [I write
# consumers](95-path-i-write-consumers.ipynb)
