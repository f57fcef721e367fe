"""A sender of Proton's for an application with threads: its ``send`` waits while the window is full.

The container runs in a thread of its own, to which the others hand over what is to be sent.  So the
application itself is slowed down with the queue, and nothing piles up in between.
"""

import sys
from collections.abc import Callable
from threading import Semaphore, Thread

from proton import Event
from proton.reactor import ApplicationEvent, Container, EventInjector
from proton_window_cured import TOTAL, WINDOW, CuredSender


class Outbox(CuredSender):
    """Takes messages from any thread, as many as the window has room for."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting.clear()
        self.room = Semaphore(WINDOW)
        self.is_closing = False
        self.events = EventInjector()
        self.thread = Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        """Run the container; at its end the next one that waits for room learns why."""
        Container(self).run()
        self.room.release()

    def send(self, number: int) -> None:
        """Wait for room, and hand a message over."""
        self.room.acquire()
        if self.error:
            # The next one that waits, too, is to learn of it.
            self.room.release()
        self.check()
        self.hand_over(lambda: self.waiting.append(number))

    def close(self) -> None:
        """Wait until all is accepted."""
        self.hand_over(self.finish)
        self.thread.join()
        self.check()

    def check(self) -> None:
        """Raise the error that has ended the container, if one has."""
        if self.error:
            raise ConnectionError(self.error)

    def hand_over(self, act: Callable[[], object]) -> None:
        """Let the container's thread act."""
        self.events.trigger(ApplicationEvent("handed_over", subject=act))

    # In the container's thread

    def on_start(self, event: Event) -> None:
        """Connect, and listen to the other threads."""
        event.container.selectable(self.events)
        super().on_start(event)

    def on_handed_over(self, event: Event) -> None:
        """Do what another thread asks for."""
        event.subject()
        self.fill()

    def on_accepted(self, event: Event) -> None:
        """One is done: there is room for another."""
        self.room.release()
        super().on_accepted(event)

    def finish(self) -> None:
        """Note that no more will come."""
        self.is_closing = True
        self.events.close()

    @property
    def is_done(self) -> bool:
        """Whether all has been handed over, and is accepted."""
        return self.is_closing and super().is_done


if __name__ == "__main__":
    outbox = Outbox()
    try:
        for order in range(TOTAL):
            outbox.send(order)
        outbox.close()
    except ConnectionError as error:
        sys.exit(f"not all of {TOTAL} accepted: {error}")
