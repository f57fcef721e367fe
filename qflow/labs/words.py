"""The words of the picture: one template for each thing that a step or a state can show.

The browser fills them (``static/words.js``); a test fills them with the same numbers and compares.
"""

from __future__ import annotations

from typing import Final

# What happened in one step, in the order of its sentences. A step's ``parts`` is the sum of the bits.
STEP: dict[str, str] = {
    "subscribed": "{consumer} subscribes to {queue}.",
    "sent": "{producer} sends {message}.",
    "refused": "{queue} is full: the broker refuses the message, and {producer}'s session dies.",
    "died": "{producer}'s session dies.",
    "dropped": "{queue} drops {message}.",
    "evicted": "{lost} is thrown out of {queue} to make room.",
    "replaced": "{queue} keeps the newer value: {lost} is replaced.",
    "destroyed": "{queue} destroys itself, with everything on it.",
    "accepted": "{consumer} accepts {message}, which leaves {queue}.",
    "removed": "{message} leaves {queue}.",
    "given_back": "{message} is given back to {queue}.",
    "turned_on": "{depth} on {queue}, more than {stop}: flow control turns ON.",
    "turned_on_bytes": "{bytes} bytes on {queue}, more than {stop_size}: flow control turns ON.",
    "turned_on_at": "{depth} on {queue}: flow control turns ON.",
    "held": "The completion is held.",
    "turned_off": "{depth} left on {queue}: flow control turns OFF.",
    "freed": "Completions released at once: {freed}.",
    "freed_own": "The message was held itself: its completion is released.",
    "delivered": "{consumer} receives {delivery}.",
    "delivered_many": "{consumer} receives {deliveries} messages.",
    "blocked": "{waiter}'s window is full: it must wait.",
    "unblocked": "{waiter} may send again.",
    "unblocked_many": "{waiters} producers may send again.",
    "rejected": "{consumer} rejects {message}, which leaves {queue}.",
    "channel_stopped": "The broker tells {waiter}'s session to stop sending.",
    "channel_resumed": "The broker tells {waiter}'s session to go on.",
    "released": "{queue} has no room: {message} is released, and {producer} goes on.",
}
BITS: dict[str, int] = {name: 1 << index for index, name in enumerate(STEP)}

# What an instant shows.
STATE: dict[str, str] = {
    "start": "Nothing has happened yet.",
    "queue": "{queue}: depth {depth}, flow control {flow}, {held} held.",
    "free_queue": "{queue}: depth {depth}, no flow control.",
    "producer": "{producer}: {outstanding} of {capacity} outstanding, {mood}.",
    "consumer": "{consumer}: {holds} of {prefetch} prefetched.",
    "absent": "{consumer}: not here.",
}
# While a queue is ON: what a producer may still do, and what it waits for.
OUTLOOK: dict[str, str] = {
    "may_send": "{producer} may send {room} more before its window is full.",
    "waits": "{producer} waits until {queue} turns OFF.",
    "idle": "{producer} has nothing to send until {time}.",
    "done": "{producer} has sent everything.",
}
MOODS = (
    "free to send",
    "window full",
    "waiting with a full window",
    "its session is dead",
    "asked to stop sending",
)
FREE: Final = 0
FULL: Final = 1
WAITING: Final = 2
DEAD: Final = 3
TOLD: Final = 4
FLOW = ("OFF", "ON")


def vocabulary() -> dict[str, object]:
    """Return all templates, for the browser; those of a step bit by bit."""
    templates = {"parts": list(STEP), "step": list(STEP.values()), "state": STATE}
    return {**templates, "moods": list(MOODS), "flow": list(FLOW), "outlook": OUTLOOK}
