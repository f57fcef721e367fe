"""Lifetime: who owns a queue exclusively, and when a queue deletes itself.

Rules: QT-08, RF-19, CN-23.
"""

from __future__ import annotations

from qflow.broker.context import BrokerContext, TimerTask
from qflow.broker.queue_view import QueueView
from qflow.broker.restorable import Restorable
from qflow.broker.settings import LIFETIMES, QueueSettings


class Lifetime(Restorable):
    """Decides whether a queue deletes itself now.

    Parameters
    ----------
    context : BrokerContext
        Deletes the queue, at once or after the declared time-out.
    policy : str
        One of ``delete-if-unused``, ``delete-if-unused-and-empty``, ``delete-on-close``, or "" for
        a queue that stays until somebody deletes it.
    timeout : int
        Seconds between the decision and the deletion; 0 means at once.

    Attributes
    ----------
    declares : int
        How often the queue has been declared again.
    timers : list of int
        Time-outs that run; a later one does not end an earlier one.
    """

    __slots__ = ("context", "policy", "timeout", "owner", "declares", "timers", "last_timer")

    def __init__(self, context: BrokerContext, policy: str, timeout: int) -> None:
        self.context = context
        self.policy = policy
        self.timeout = timeout
        self.owner = ""
        self.declares = 0
        self.timers: list[int] = []
        self.last_timer = 0

    @property
    def deletes_itself(self) -> bool:
        """Whether the queue is auto-delete."""
        return bool(self.policy)

    def may_delete(self, queue: QueueView) -> bool:
        """Return whether the lifetime policy lets the queue go now (RF-19)."""
        if not self.policy or queue.is_deleted:
            return False
        if self.policy == "delete-on-close":
            return True
        if self.owner or not queue.is_unused:
            return False
        return self.policy == "delete-if-unused" or queue.is_empty

    def consider(self, queue: QueueView) -> None:
        """Delete the queue if its policy says so, or start its time-out."""
        if not self.may_delete(queue):
            return
        if self.timeout:
            self.last_timer += 1
            self.timers.append(self.last_timer)
            due = self.context.now + self.timeout * 1_000_000
            self.context.schedule(due, AutoDelete(self, queue, self.last_timer, self.declares))
        else:
            self.context.destroy_queue(queue.name, "auto-delete")

    def expire(self, queue: QueueView, timer: int, declares: int) -> None:
        """Delete the queue when a time-out is over; a declare meanwhile starts another one instead."""
        if timer not in self.timers:
            return
        self.timers.remove(timer)
        if self.declares != declares:
            self.consider(queue)
        elif self.may_delete(queue):
            self.context.destroy_queue(queue.name, "auto-delete")

    def use(self) -> None:
        """Cancel the last time-out: the queue has a reader or an owner again (QT-08)."""
        if self.last_timer in self.timers:
            self.timers.remove(self.last_timer)


def make_lifetime(context: BrokerContext, settings: QueueSettings, auto_delete: bool) -> Lifetime:
    """Return the lifetime that a declare asks for.

    A ``qpid.lifetime-policy`` other than ``manual`` implies auto-delete, as does a time-out; an
    unknown policy is ignored (RF-19, QT-08).
    """
    policy = settings.lifetime_policy if settings.lifetime_policy in LIFETIMES else ""
    if policy == "manual":
        return Lifetime(context, "", 0)
    if not policy and (auto_delete or settings.auto_delete_timeout):
        policy = "delete-if-unused"
    return Lifetime(context, policy, settings.auto_delete_timeout)


class AutoDelete(TimerTask):
    """A time-out after which a queue deletes itself (QT-08)."""

    __slots__ = ("lifetime", "queue", "timer", "declares")

    def __init__(self, lifetime: Lifetime, queue: QueueView, timer: int, declares: int) -> None:
        self.lifetime = lifetime
        self.queue = queue
        self.timer = timer
        self.declares = declares

    def fire(self, due: int) -> None:
        """Delete the queue, unless it has been used meanwhile."""
        self.lifetime.expire(self.queue, self.timer, self.declares)
