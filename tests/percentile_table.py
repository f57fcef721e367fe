"""Percentiles by nearest rank, worked out by hand: values, and what each percentage gives."""

PERCENTILES = [
    ([7], {50: 7, 90: 7, 99: 7}),
    ([1, 2], {50: 1, 90: 2, 99: 2}),
    ([50, 15, 40, 20, 35], {50: 35, 90: 50, 99: 50}),
    ([3, 6, 7, 8, 8, 10, 13, 15, 16, 20], {50: 8, 90: 16, 99: 20}),
    (list(range(1, 101)), {50: 50, 90: 90, 99: 99}),
    # One that takes a minute among a hundred is not what 99 % took.
    ([1] * 99 + [60], {50: 1, 90: 1, 99: 1}),
    ([1] * 98 + [60] * 2, {50: 1, 90: 1, 99: 60}),
    ([1] * 89 + [60] * 11, {50: 1, 90: 60, 99: 60}),
]
