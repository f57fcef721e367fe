# %% [markdown] id="title"
# # Path: 45 minutes
#
# *45 minutes, for a lesson, or for a first look.*
#
# At the end you can say when a queue makes its producers wait, how deep it can get, and what keeps the order
# of a group.
#
# 1. [0 · A tour in ten minutes](00-tour.ipynb), **9 minutes**. May be skipped: *Keeping the order: groups*,
#    *Setting it up*, *Three queues, one slow*, *Is that true?*, *Keypoints*. Read it together; let everybody
#    write down the one guess.
# 2. [1 · Thresholds](01-thresholds.ipynb), **16 minutes**. Only: *Predict before you run*, *The mechanism,
#    one message at a time*, *Why that stops a producer*, *The surprise*, *Your predictions*. *What the real
#    broker did* is homework.
# 3. [Exercises 1](../exercises/01-thresholds.ipynb), **6 minutes**: `on_and_off`, two to a laptop.
# 4. [5 · Message groups: the shopping cart](05-message-groups.ipynb), **12 minutes**. Only: *Predict before
#    you run*, *Watch it, then switch the groups off*, *The mechanism: a group has one owner at a time*, *A
#    does not block B*, *Your predictions*.
# 5. Questions, **2 minutes**.
#
# The minutes suit a slow reader, with time for each cell, guess and lab; faster readers have the optional
# sections. With a room, `qflow class` shows all guesses on one tank.

# %% [markdown] id="ready-text"
# ## Is everything here?
#
# Run this cell first. It looks for the chapters of this path.

# %% id="ready"
import qflow as qf

PATH = ["00-tour", "01-thresholds", "05-message-groups"]
missing = [chapter for chapter in PATH if not (qf.kit_path("notebooks") / f"{chapter}.ipynb").exists()]
print(f"{len(PATH)} chapters; missing: {', '.join(missing) or 'none'}")

assert not missing

# %% [markdown] id="other"
# ## Other paths
#
# [90 minutes](96-path-90-minutes.ipynb) · [half a day](92-path-half-day.ipynb) · [a
# day](93-path-full-day.ipynb) · [I run brokers](94-path-i-run-brokers.ipynb) · [I write
# consumers](95-path-i-write-consumers.ipynb)
