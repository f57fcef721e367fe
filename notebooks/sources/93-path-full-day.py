# %% [markdown] id="title"
# # Path: a day
#
# *7 hours, with breaks, for those who run, build or choose message brokers.*
#
# At the end you can explain each design decision, and use your own logs.
#
# 1. [0 · A tour in ten minutes](00-tour.ipynb), **10 minutes**. The warm-up.
# 2. [1 · Thresholds](01-thresholds.ipynb), **30 minutes**.
# 3. [2 · Bytes, counts and both](02-bytes-and-counts.ipynb), **20 minutes**.
# 4. [3 · Held completions](03-held-completions.ipynb), **30 minutes**.
# 5. [4 · Capacity: from 101 to 165](04-capacity.ipynb), **35 minutes**.
# 6. [5 · Message groups](05-message-groups.ipynb), **35 minutes**.
# 7. [6 · Well-behaved consumers](06-well-behaved-consumers.ipynb), **30 minutes**. The last one before lunch.
# 8. [7 · Configuration in all its spellings](07-configuration.ipynb), **30 minutes**.
# 9. [8 · Several queues](08-several-queues.ipynb), **30 minutes**.
# 10. [9 · Other queues](09-other-queues.ipynb), **30 minutes**. With the lab: five queues side by side.
# 11. [10 · How it was designed](10-how-it-was-designed.ipynb), **40 minutes**.
# 12. [12 · Reading your own broker](12-reading-your-broker.ipynb), **45 minutes**. Bring a log of your own,
#     if you have one.
# 13. [11 · Errata](11-errata.ipynb), **25 minutes**. As a game: who finds most of the 31 before turning the
#     page?
#
# Chapter 14 is for the evening, and [16 · Break it](16-break-it.ipynb) for the way home: ten challenges.

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
    "03-held-completions": 30,
    "04-capacity": 35,
    "05-message-groups": 35,
    "06-well-behaved-consumers": 30,
    "07-configuration": 30,
    "08-several-queues": 30,
    "09-other-queues": 30,
    "10-how-it-was-designed": 40,
    "12-reading-your-broker": 45,
    "11-errata": 25,
}
missing = [chapter for chapter in PATH if not (qf.kit_path("notebooks") / f"{chapter}.ipynb").exists()]
print(f"{len(PATH)} chapters, {sum(PATH.values())} minutes; missing: {', '.join(missing) or 'none'}")

assert not missing

# %% [markdown] id="other"
# ## Other paths
#
# [45 minutes](91-path-45-minutes.ipynb) · [half a day](92-path-half-day.ipynb) · [I run
# brokers](94-path-i-run-brokers.ipynb) · [I write consumers](95-path-i-write-consumers.ipynb)
