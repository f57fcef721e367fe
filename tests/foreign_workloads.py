"""Workloads of strangers: setups for :mod:`foreign_simulator`, and the files their users would have.

:func:`draw` makes a setup by chance; no seed of the kit and no rate in a file tells its numbers.
:func:`users_files` writes a log and a workload file as a user would: the structure right, rates and service
times guessed, no seeds.  :func:`truth` says what other thresholds or windows come to.
:func:`exact_workload` is the mapping of a file with which the engine plays the very same messages and
services.
"""

import csv
import gzip
import json
import random
from dataclasses import dataclass, field, replace
from pathlib import Path

from foreign_simulator import FANOUT, US, Run

_NAMES = ("orders", "audit", "mail")


@dataclass(frozen=True)
class Queue:
    """Levels of 0 are absent."""

    name: str
    stop: int = 0
    resume: int = 0
    stop_bytes: int = 0
    resume_bytes: int = 0
    limit: int = 0
    is_ring: bool = False
    is_grouped: bool = False


@dataclass(frozen=True)
class Client:
    """A producer of messages (due, size, group), or a consumer with services; times in microseconds."""

    name: str
    queues: tuple[str, ...]
    window: int
    messages: list = field(default_factory=list)
    services: list = field(default_factory=list)
    start: int = 0
    # How long all takes from the client to the broker, and back.
    delay: int = 0

    @property
    def to(self):
        return self.queues[0] if len(self.queues) == 1 else FANOUT


@dataclass(frozen=True)
class Setup:
    duration: int
    queues: list[Queue]
    producers: list[Client]
    consumers: list[Client]


def draw(seed, *, is_plain=False, seconds=None):
    """Return a random setup; a plain one has no ring, no overflow and no late consumer."""
    chance = random.Random(f"a stranger's workload {seed}")
    duration = seconds or chance.choice((2, 4, 6))
    is_grouped = chance.random() < 0.25
    kind = "flow" if is_plain else chance.choice(("flow", "flow", "flow", "ring", "small"))
    queues = [_queue(chance, name, kind, is_grouped) for name in _NAMES[: chance.choice((1, 1, 1, 2, 3))]]
    consumers, pace = [], 0.0
    for number, queue in enumerate(queue for queue in queues for _ in range(chance.choice((1, 1, 2, 3)))):
        mean = chance.choice((0.004, 0.01, 0.02, 0.03)) * len(queues)
        pace += 1 / mean
        start = chance.choice((0, 0, 0.2, duration / 4)) if not is_plain else 0
        prefetch = chance.choice((1, 2, 5, 10, 20))
        services = _services(chance, mean, int(2 * duration / mean) + 20)
        consumers.append(
            Client(f"c{number}", (queue.name,), prefetch, services=services, start=round(start * US))
        )
    load = chance.choice((0.5, 0.8, 1.0, 1.3, 2.5))
    producers = []
    for number in range(count := chance.choice((1, 1, 2, 3))):
        is_fanout = len(queues) > 1 and chance.random() < 0.3
        targets = tuple(q.name for q in queues) if is_fanout else (queues[number % len(queues)].name,)
        messages = _messages(
            chance, pace * load / count, duration * US, chance.choice((0, 2, 6)) if is_grouped else 0
        )
        producers.append(Client(f"p{number}", targets, chance.choice((2, 5, 10, 20, 60)), messages))
    return Setup(duration * US, queues, producers, consumers)


def _queue(chance, name, kind, is_grouped):
    stop = chance.choice((5, 12, 20, 40, 100))
    resume = max(1, int(stop * chance.choice((0.4, 0.7, 0.9, 1.0))))
    if kind == "ring":
        return Queue(name, limit=chance.choice((5, 15, 40)), is_ring=True, is_grouped=is_grouped)
    limit = stop + chance.choice((0, 3, 10)) if kind == "small" else 1000
    queue = Queue(name, stop, resume, limit=limit, is_grouped=is_grouped)
    if chance.random() < 0.75:
        return queue
    stop_bytes = chance.choice((2_000, 8_000, 30_000))
    return replace(queue, stop_bytes=stop_bytes, resume_bytes=int(stop_bytes * chance.choice((0.5, 0.9))))


def _services(chance, mean, many):
    law = chance.choice(("fixed", "even", "gamma", "exponential", "two"))
    pick = {
        "fixed": lambda: mean,
        "even": lambda: chance.uniform(0.2, 1.8) * mean,
        "gamma": lambda: chance.gammavariate(3, mean / 3),
        "exponential": lambda: chance.expovariate(1 / mean),
        "two": lambda: mean * (5.0 if chance.random() < 0.1 else 5 / 9),
    }[law]
    return [max(1, round(pick() * US)) for _ in range(many)]


def _messages(chance, rate, end, groups):
    law, sizes = (
        chance.choice(("exponential", "gamma", "even", "bursts")),
        chance.choice(((100, 100), (50, 3000))),
    )
    messages, time, mean = [], 0.0, 1 / rate
    while True:
        gap = {"gamma": chance.gammavariate(2, mean / 2), "even": chance.uniform(0, 2 * mean)}.get(law)
        time += chance.expovariate(rate) if gap is None else gap
        if law == "bursts" and time % 1.0 > 0.5:
            time += 1.0 - time % 1.0
        if time * US >= end:
            return messages
        group = f"g{1 + min(groups - 1, int(chance.expovariate(1.0)))}" if groups else ""
        messages.append((max(1, round(time * US)), chance.randint(*sizes), group))


def exact_workload(setup, name="exact"):
    """Return the mapping of a workload file with the very messages and services of a setup."""
    producers = [
        {**_client(p), "rate": 1, "size": 1, "arrival": "recorded"}
        | {"recorded": [(due / US, size, group) for due, size, group in p.messages]}
        for p in setup.producers
    ]
    consumers = [
        {"name": c.name, "queue": c.queues[0], "prefetch": c.window, "start": c.start / US}
        | {"service": ("recorded", tuple(time / US for time in c.services))}
        for c in setup.consumers
    ]
    return _file(setup, name, producers, consumers)


def users_workload(setup, name="stranger", guess=1.0):
    """Return the mapping of a workload file as a user would write it: rates and service times guessed."""
    seconds = setup.duration / US
    producers = [
        {**_client(p), "rate": _rough(guess * max(1, len(p.messages)) / seconds)}
        | {"size": max(100, round(sum(m[1] for m in p.messages) / max(1, len(p.messages))) // 100 * 100)}
        for p in setup.producers
    ]
    consumers = [
        {"name": c.name, "queue": c.queues[0], "prefetch": c.window, "start": c.start / US}
        | {"service": ("exp", _rough(guess * sum(c.services) / len(c.services) / US))}
        for c in setup.consumers
    ]
    return _file(setup, name, producers, consumers)


def _client(producer):
    to = (FANOUT, "") if producer.to == FANOUT else ("", producer.to)
    return {"name": producer.name, "to": to, "capacity": producer.window}


def _rough(number):
    return float(f"{number:.1g}")


def _file(setup, name, producers, consumers):
    arguments = {}
    for queue in setup.queues:
        arguments[queue.name] = {
            "qpid.max_count": queue.limit,
            "qpid.flow_stop_count": queue.stop,
            "qpid.flow_resume_count": queue.resume,
            "qpid.flow_stop_size": queue.stop_bytes,
            "qpid.flow_resume_size": queue.resume_bytes,
        }
        if queue.is_ring:
            arguments[queue.name] = {"qpid.max_count": queue.limit, "qpid.policy_type": "ring"}
        if queue.is_grouped:
            arguments[queue.name] |= {"qpid.group_header_key": "group", "qpid.shared_msg_group": 1}
    fanout = any(len(p.queues) > 1 for p in setup.producers)
    binds = [(FANOUT, queue.name, "") for queue in setup.queues] if fanout else []
    return {
        "name": name, "duration": setup.duration / US, "queues": arguments, "binds": binds,
        "producers": producers, "consumers": consumers,
    }  # fmt: skip


def with_delays(setup, seed=0):
    """Return a setup whose clients are a few hundred microseconds away from the broker, as a log has them."""
    chance = random.Random(f"delays {seed}")

    def away(clients):
        return [replace(client, delay=chance.randint(60, 400)) for client in clients]

    return replace(setup, producers=away(setup.producers), consumers=away(setup.consumers))


def log_rows(run, *, blocks=True, clock_from=0.0):
    """Return the rows of a client log of a run: time, client, event, queue, label, size, group."""
    begin = round(clock_from * US)
    return [
        (
            time + begin, client, event, queue,
            message.label if message else "",
            message.size if message and event in ("transfer", "deliver") else 0,
            message.group if message and event in ("transfer", "deliver") else "",
        )
        for time, client, event, queue, message in run.rows
        if blocks or event not in ("block", "unblock")
    ]  # fmt: skip


def users_files(setup, folder, name="stranger", *, guess=1.0, seed=None, **options):
    """Play a setup, write its log and a user's workload file; return the two paths and the run."""
    folder, run = Path(folder), Run(setup)
    mapping = users_workload(setup, name, guess)
    for number, client in enumerate((*mapping["producers"], *mapping["consumers"])):
        client |= {} if seed is None else {"seed": seed + number}
    (folder / f"{name}.json").write_text(json.dumps(mapping))
    with gzip.open(folder / f"{name}.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("ts_us", "client", "event", "queue", "label", "size", "group"))
        writer.writerows(log_rows(run, **options))
    return folder / f"{name}.json", folder / f"{name}.csv.gz", run


def changed(setup, thresholds=1.0, windows=1.0):
    """Return a setup with thresholds or producers' windows times a factor; the demand stays."""
    levels = ("stop", "resume", "stop_bytes", "resume_bytes")
    queues = [replace(q, **{k: int(getattr(q, k) * thresholds) for k in levels}) for q in setup.queues]
    producers = [replace(p, window=max(1, int(p.window * windows))) for p in setup.producers]
    return replace(setup, queues=queues, producers=producers)


def truth(setup, **changes):
    """Return the measures of queues and producers under other thresholds or windows (:func:`changed`)."""
    run = Run(changed(setup, **changes))
    return {
        "queues": {queue.name: run.queue(queue.name) for queue in setup.queues},
        "producers": {p.name: run.producer(p.name) for p in setup.producers},
    }


def drawn_from(mapping, seed):
    """Return a setup of a workload file's own laws, with chance of its own: what the file may come to.

    It knows producers that are Poisson or constant, in bursts or not, and consumers with ``exp`` or ``const``
    service and late starts.
    """
    duration = round(mapping["duration"] * US)
    queues = [_queue_of(name, arguments) for name, arguments in mapping["queues"].items()]
    producers = []
    for producer in mapping["producers"]:
        chance = random.Random(f"{seed} {producer['name']}")
        messages = [(due, producer["size"], "") for due in _due_times(producer, duration, chance)]
        producers.append(Client(producer["name"], (producer["to"][1],), producer["capacity"], messages))
    consumers = []
    for consumer in mapping["consumers"]:
        chance = random.Random(f"{seed} {consumer['name']}")
        kind, mean = consumer["service"]
        many = int(2 * duration / mean / US) + 50
        services = [chance.expovariate(1 / mean) if kind == "exp" else mean for _ in range(many)]
        start = round(consumer.get("start", 0) * US)
        services = [max(1, round(service * US)) for service in services]
        consumers.append(
            Client(consumer["name"], (consumer["queue"],), consumer["prefetch"], [], services, start)
        )
    return Setup(duration, queues, producers, consumers)


def _queue_of(name, arguments):
    levels = [int(arguments.get(f"qpid.flow_{level}", 0)) for level in ("stop_count", "resume_count")]
    levels += [int(arguments.get(f"qpid.flow_{level}", 0)) for level in ("stop_size", "resume_size")]
    return Queue(name, *levels, limit=int(arguments.get("qpid.max_count", 0)))


def _due_times(producer, end, chance):
    on, off = producer.get("burst") or (1.0, 0.0)
    gap, time, found = 1 / producer["rate"], 0.0, []
    while True:
        # Time that passes while a burst lasts; the silences are put between.
        time += chance.expovariate(1 / gap) if producer.get("arrival", "poisson") == "poisson" else gap
        due = round((time // on * (on + off) + time % on) * US)
        if due >= end:
            return found
        found.append(max(1, due))
