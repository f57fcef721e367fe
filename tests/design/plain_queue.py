"""A queue with thresholds, windows and consumers in plain Python: no line of qflow's engine or clients."""

import heapq
from collections import deque
from itertools import count
from random import Random

HEADER = 46


def simulate_plainly(mapping, seed, seconds):
    """Play a workload file of one queue with limits in bytes; return waits, messages refused, most bytes."""
    (limits,) = mapping["queues"].values()
    stop, resume = limits["qpid.flow_stop_size"], limits["qpid.flow_resume_size"]
    chance, order, agenda, waits = Random(seed), count(), [], []
    queue, held, depth, most, refused, is_on = deque(), {}, 0, 0, 0, False
    window = {producer["name"]: producer["capacity"] for producer in mapping["producers"]}
    overdue = {name: deque() for name in window}
    mine = {consumer["name"]: deque() for consumer in mapping["consumers"]}
    is_busy, outages = dict.fromkeys(mine, False), {}
    for producer in mapping["producers"]:
        on, off = producer.get("burst", (seconds, 0))
        (mu, sigma), largest, time = producer["size"]["lognormal"], producer["size"]["max"], 0.0
        while time < seconds:
            # Gaps add up to the time in which it may send; silences lie between.
            time += chance.expovariate(producer["rate"])
            size = min(int(chance.lognormvariate(mu, sigma)), largest) + HEADER
            due = time // on * (on + off) + time % on
            agenda.append((due, next(order), producer["name"], size))
    heapq.heapify(agenda)
    for consumer in mapping["consumers"]:
        every, lasting = consumer.get("outage", (seconds, 0))
        outages[consumer["name"]] = (every, lasting, chance.random() * (every - lasting))

    def send(now, name):
        nonlocal depth, most, refused, is_on
        while overdue[name] and window[name]:
            due, size = overdue[name].popleft()
            waits.append(now - due)
            refused += depth + size > limits["qpid.max_size"]
            depth += size
            most, is_on, number = max(most, depth), is_on or depth > stop, next(order)
            if is_on:
                held[number] = name
                window[name] -= 1
            queue.append((number, size))
            deliver(now)

    def deliver(now):
        for consumer in mapping["consumers"]:
            name, (every, lasting, first) = consumer["name"], outages[consumer["name"]]
            while queue and len(mine[name]) < consumer["prefetch"]:
                mine[name].append(queue.popleft())
            if mine[name] and not is_busy[name]:
                since = (now - first) % every if now >= first else every
                begin = now + max(0.0, lasting - since)
                is_busy[name] = True
                end = begin + chance.expovariate(1 / consumer["service"][1])
                heapq.heappush(agenda, (end, next(order), name, 0))

    while agenda and agenda[0][0] <= seconds:
        now, _, name, size = heapq.heappop(agenda)
        if name in window:
            overdue[name].append((now, size))
            send(now, name)
            continue
        number, size = mine[name].popleft()
        is_busy[name], depth = False, depth - size
        freed = [held.pop(number)] if number in held else []
        if is_on and depth < resume:
            is_on, freed = False, [*freed, *held.values()]
            held.clear()
        for owner in freed:
            window[owner] += 1
        deliver(now)
        for owner in dict.fromkeys(freed):
            send(now, owner)
    waits += [seconds - due for late in overdue.values() for due, _ in late]
    return sorted(waits), refused, most
