"""Stories to ask about: a broker, clients of few words, and a trace of all of it."""

from __future__ import annotations

from contextlib import suppress

from qflow.broker import INFINITE, Broker, BrokerOptions, Message
from qflow.broker.errors import AmqpException, ManagementError
from qflow.trace.replaying import record


class Story:
    """Commands in order; ``ask`` notes that something is to be explained as it is now."""

    def __init__(self):
        self.begin()

    def begin(self, **options):
        """Begin with a broker of these options."""
        self.broker = Broker(BrokerOptions(**options))
        self.trace = record(self.broker, "story")
        self.questions = []

    def ask(self, *subjects):
        self.questions += [(len(self.trace) - 1, subject) for subject in subjects]

    def ask_at(self, time, *subjects):
        """Ask about an instant of a trace that is whole already."""
        row = max(row for row, at in enumerate(self.trace.time) if at <= time)
        self.questions += [(row, subject) for subject in subjects]

    def at(self, milliseconds):
        self.broker.advance(milliseconds * 1000)

    def session(self, name):
        session = self.broker.sessions.get(name)
        return session if session is not None and session.is_attached else self.broker.session(name)

    def queue(self, name, alternate="", auto_delete=False, **arguments):
        given = {f"qpid.{key}": value for key, value in arguments.items()}
        self.session("admin").queue_declare(
            name, given, alternate_exchange=alternate, auto_delete=auto_delete
        )

    def grouped(self, name="q", **arguments):
        self.queue(name, group_header_key="group", shared_msg_group=1, max_size=0, **arguments)

    def send(self, who, *labels, to="q", exchange="", size=100, headers=None, **properties):
        for label in labels:
            message = Message(size, to, headers, label=label, **properties)
            with suppress(AmqpException):
                self.session(who).message_transfer(message, exchange)

    def send_grouped(self, who, *labels, to="q"):
        """Send messages whose group is what their label begins with."""
        for label in labels:
            self.send(who, label, to=to, headers={"group": label.partition("-")[0]})

    def consume(self, who, queue="q", credit=1, mode=1, **more):
        session = self.session(who)
        session.message_subscribe(queue, who, **more)
        session.message_set_flow_mode(who, mode)
        session.message_flow(who, 1, INFINITE)
        if credit:
            session.message_flow(who, 0, INFINITE if credit == "inf" else credit)

    def accept(self, who, *labels):
        self.settle("message_accept", who, labels)

    def release(self, who, *labels):
        self.settle("message_release", who, labels)

    def reject(self, who, *labels):
        self.settle("message_reject", who, labels)

    def settle(self, method, who, labels):
        records = self.session(who).consuming.records
        getattr(self.session(who), method)([n for n, record in records.items() if record.label in labels])

    def finish(self, who, *labels):
        """Accept and complete, as a client with a prefetch does."""
        records = self.session(who).consuming.records
        numbers = [number for number, record in records.items() if record.label in labels]
        self.session(who).message_accept(numbers)
        self.session(who).session_completed(numbers)

    def manage(self, method, *arguments):
        with suppress(ManagementError):
            getattr(self.broker.management, method)(*arguments)


def story_of(tell):
    story = Story()
    tell(story)
    return story


def numbered(name, first, last):
    return [f"{name}-{number}" for number in range(first, last + 1)]
