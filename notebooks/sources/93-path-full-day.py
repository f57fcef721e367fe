# %% [markdown] id="title"
# # Path: a day
#
# *7 hours, with breaks, for people who run, build or choose message brokers.*
#
# At the end you can explain each design decision, and use your own logs.
#
# 1. [0 · A tour in ten minutes](00-tour.ipynb), **16 minutes**. The warm-up.
# 2. [1 · Thresholds](01-thresholds.ipynb), **28 minutes**.
# 3. [Exercises 1](../exercises/01-thresholds.ipynb), **15 minutes**: `on_and_off`, `flow_states` and
#    `activations`.
# 4. Break, **15 minutes**.
# 5. [2 · Bytes, counts and both](02-bytes-and-counts.ipynb), **24 minutes**.
# 6. [3 · Held completions: what the producer sees](03-held-completions.ipynb), **24 minutes**.
# 7. [4 · Capacity: from 101 to 165](04-capacity.ipynb), **32 minutes**.
# 8. [Exercises 4](../exercises/04-capacity.ipynb), **19 minutes**: `overflow`, `worst_depth` and
#    `after_the_stall`.
# 9. Break, **40 minutes**.
# 10. [5 · Message groups: the shopping cart](05-message-groups.ipynb), **35 minutes**.
# 11. [6 · Well-behaved consumers](06-well-behaved-consumers.ipynb), **21 minutes**.
# 12. [Exercises 5](../exercises/05-groups.ipynb), **19 minutes**: `next_gets`, `second_gets`, `give_up` and
#     `may_have_groups`.
# 13. Break, **15 minutes**.
# 14. [7 · Configuration in all its spellings](07-configuration.ipynb), **24 minutes**.
# 15. [8 · Several queues: fan-out, one slow subscriber, one session each](08-several-queues.ipynb), **21
#     minutes**.
# 16. [12 · Reading your own broker](12-reading-your-broker.ipynb), **31 minutes**. May be skipped: *The
#     naive way: watch the depth*, *Write it down, and look later*. Bring a log of your own, if you have one.
# 17. Break, **10 minutes**.
# 18. [10 · How it was designed](10-how-it-was-designed.ipynb), **25 minutes**.
# 19. Questions, **6 minutes**.
#
# The minutes suit a slow reader, with time for each cell, guess and lab; faster readers have the optional
# sections.
#
# Chapters 9, 11, 14 and 17 are for the evening, and [16 · Break it](16-break-it.ipynb) for the way home: ten
# challenges.

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
    "03-held-completions",
    "04-capacity",
    "05-message-groups",
    "06-well-behaved-consumers",
    "07-configuration",
    "08-several-queues",
    "12-reading-your-broker",
    "10-how-it-was-designed",
]
missing = [chapter for chapter in PATH if not (qf.kit_path("notebooks") / f"{chapter}.ipynb").exists()]
print(f"{len(PATH)} chapters; missing: {', '.join(missing) or 'none'}")

assert not missing

# %% [markdown] id="other"
# ## Other paths
#
# [45 minutes](91-path-45-minutes.ipynb) · [90 minutes](96-path-90-minutes.ipynb) ·
# [half a day](92-path-half-day.ipynb) · [I run
# brokers](94-path-i-run-brokers.ipynb) · [I write consumers](95-path-i-write-consumers.ipynb)
