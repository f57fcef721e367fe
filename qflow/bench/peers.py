"""The same under other simulators, where they are installed: SimPy's Store, and Ciw."""

from __future__ import annotations

from collections.abc import Generator
from importlib.util import find_spec
from typing import Any


def installed() -> list[str]:
    """Return which of the other simulators are installed."""
    return [name for name in ("simpy", "ciw") if find_spec(name) is not None]


def store_put_and_get(messages: int) -> int:
    """Let one SimPy process put messages into a Store, and another get them; return how many it got.

    Two operations for each message.  A Store knows no accept, no completion, no limits and no thresholds:
    it is the least that a queue can be.
    """
    return _through_a_store(messages, is_backlog=False)


def store_backlog(messages: int) -> int:
    """Put messages into a Store that nobody reads, then get them all; return how many that were.

    A Store takes the first of its items off a list, and moves all the others up.

    Examples
    --------
    >>> store_backlog(250) if "simpy" in installed() else 250
    250
    """
    return _through_a_store(messages, is_backlog=True)


def _through_a_store(messages: int, is_backlog: bool) -> int:
    import simpy

    environment = simpy.Environment()
    store = simpy.Store(environment)
    got = 0

    def producer() -> Generator[Any]:
        for number in range(messages):
            yield store.put(number)

    def consumer() -> Generator[Any]:
        nonlocal got
        for _ in range(messages):
            yield store.get()
            got += 1

    environment.process(producer())
    if is_backlog:
        environment.run()
    environment.process(consumer())
    environment.run()
    return got


def store_life_cycle(messages: int, window: int = 100) -> int:
    """Let messages live the life that a broker's message lives, with SimPy Stores; return how many did.

    Five operations of a Store for each: the producer takes a place in its window and puts the message on
    the queue; the consumer gets it, accepts it, and the completion gives the place back.  There are still
    no limits, no thresholds, no credit, no groups and no numbers of commands.

    Examples
    --------
    >>> store_life_cycle(250) if "simpy" in installed() else 250
    250
    """
    import simpy

    environment = simpy.Environment()
    places, queue, accepted = (simpy.Store(environment) for _ in range(3))
    places.items.extend(range(window))

    def producer() -> Generator[Any]:
        for number in range(messages):
            yield places.get()
            yield queue.put(number)

    def consumer() -> Generator[Any]:
        for _ in range(messages):
            number = yield queue.get()
            yield accepted.put(number)
            yield places.put(number)

    environment.process(producer())
    environment.process(consumer())
    environment.run()
    return len(accepted.items)


def store_with_times(messages: int) -> int:
    """Simulate the workload ``shop`` with a SimPy Store: arrivals, a window, service times."""
    from random import Random

    import simpy

    environment = simpy.Environment()
    window = simpy.Store(environment, capacity=100)
    queue = simpy.Store(environment)
    arrivals, services = Random(1), Random(2)
    served = 0

    def producer() -> Generator[Any]:
        for number in range(messages):
            yield environment.timeout(arrivals.expovariate(1_000))
            yield window.put(number)
            yield queue.put(number)

    def consumer() -> Generator[Any]:
        nonlocal served
        for _ in range(messages):
            yield queue.get()
            yield environment.timeout(services.expovariate(1 / 0.0009))
            yield window.get()
            served += 1

    environment.process(producer())
    environment.process(consumer())
    environment.run()
    return served


def ciw_queue(messages: int) -> int:
    """Simulate the arrivals and service times of ``shop`` with Ciw: one server, first come first served."""
    import ciw

    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=1_000)],
        service_distributions=[ciw.dists.Exponential(rate=1 / 0.0009)],
        number_of_servers=[1],
    )
    ciw.seed(1)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(messages)
    return messages
