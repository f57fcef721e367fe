# %% [markdown] id="title"
# # 11 · Errata: find the mistakes in the manual
#
# *40 minutes. Chapters 1 to 8 help. Run the cells from top to bottom with Shift+Enter.*
#
# At the end of this chapter you can
#
# - read a manual as a list of claims, and turn each claim into a check;
# - name 31 places where the documents about flow control and message groups contradict each other, the source
#   or the running broker, and say who is right;
# - say which of them would have hurt you.
#
# **A question to begin with.** "When the total number of enqueued messages is greater than or equal to 900,
# the queue's flow control state is OFF." This sentence was published. It needs two corrections. Which?

# %% [markdown] id="documents-text"
# ## The documents
#
# | | what | year |
# |---|---|---|
# | draft | the first version of the chapter on flow control, as it was checked in | 2011 |
# | manual | that chapter as it was published later | until 2015 |
# | ticket | QPID-2935, where the feature was asked for, proposed and built | 2010–2011 |
# | groups | the chapter on message groups, as it was checked in | 2011 |
#
# All were written by people who knew the matter. They are wrong for the usual reasons: the program changed
# afterwards, a word was used loosely, a default was forgotten, an example was never run.

# %% [markdown] id="predict-text"
# ## Predict before you run
#
# Six sentences from these documents. How many of them are true of the broker as it is today?
#
# 1. "The queue's initial flow control state is OFF."
# 2. Resource utilization is "the total sum of all message content in bytes".
# 3. A held completion waits "until flow control state transitions to OFF for all queues that are a
#    destination".
# 4. Ring queues "do NOT have queue flow thresholds enabled by default".
# 5. The broker "will forcibly disconnect any client that attempts to route a message" to a full queue.
# 6. "Note well that distinct message groups would not block each other from delivery."

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("11-errata")
predictions.ask()

# %% [markdown] id="naive-text"
# ## The naive way: read carefully
#
# Reading carefully finds contradictions *inside* a text. It does not find out who is right. So we write each
# statement down as a **claim**, with a function that tries it on the engine and says whether what we put
# against it is really so. (The engine agrees with recordings of the real broker, which is why it may be the
# judge.)

# %% id="naive"
errata = []


def claim(number, document, says, in_truth):
    """Keep a claim together with the function that checks it."""

    def keep(check):
        errata.append((f"X-{number:02}", document, says, in_truth, check))
        return check

    return keep


def queue_with(messages, arguments, options=None):
    """Return a broker, its producer, and the statistics of a queue that got some messages."""
    broker = qf.Broker(options)
    producer = broker.session("producer")
    producer.queue_declare("q", arguments)
    qf.send(producer, "q", messages)
    return broker, producer, broker.queue("q").statistics()


def refusal(arguments, options=None):
    """Return the broker's words if it refuses a queue, or an empty text."""
    try:
        qf.Broker(options).session("admin").queue_declare("q", arguments)
    except qf.AmqpException as error:
        return error.text
    return ""


def starts(*options):
    """Tell whether a broker starts with these options."""
    try:
        qf.BrokerOptions.parse(options)
    except qf.StartupError:
        return False
    return True


EXAMPLE = {"qpid.max_count": 1000, "qpid.flow_stop_count": 900, "qpid.flow_resume_count": 500}

# %% [markdown] id="states-text"
# ## On and off
#
# The sentence of the question is in the draft, and contradicts the next one ("greater than 900 … ON").
# It should say *less* than or equal, and it is silent about the beginning. The ticket proposes "at and above"
# and defines the way down twice, "at or below" and "falls below". What shipped is: above, and below.


# %% id="states"
@claim(1, "draft", "OFF while 900 or more are on the queue", "OFF at first, and while 900 or fewer are")
def _():
    return [queue_with(n, EXAMPLE)[2].flowStopped for n in (0, 900, 901)] == [False, False, True]


@claim(6, "ticket", "ON at and above the high watermark", "ON above the stop threshold")
def _():
    shipped = [queue_with(n, EXAMPLE)[2].flowStopped for n in (900, 901)]
    proposed = [
        queue_with(n, EXAMPLE, qf.BrokerOptions(flow_control="watermark"))[2].flowStopped for n in (900, 901)
    ]
    return shipped == [False, True] and proposed == [True, True]


@claim(7, "ticket", "OFF 'at or below', and OFF when it 'falls below'", "OFF below the resume threshold")
def _():
    broker, _, _ = queue_with(901, EXAMPLE)
    reader = qf.Reader(broker, "reader", "q")
    reader.take(401)
    at_500 = broker.queue("q").statistics().flowStopped
    reader.take(1)
    return at_500 and not broker.queue("q").statistics().flowStopped


@claim(19, "manual", "flowStopped is True when the stop threshold is exceeded", "until it is below resume")
def _():
    broker, _, _ = queue_with(901, EXAMPLE)
    qf.Reader(broker, "reader", "q").take(300)
    statistics = broker.queue("q").statistics()
    return statistics.msgDepth == 601 and statistics.flowStopped and statistics.flowStoppedCount == 1


@claim(30, "manual", "completions are held until OFF", "or until the message itself leaves the queue")
def _():
    broker, producer, _ = queue_with(3, {"qpid.flow_stop_count": 1})
    reader = qf.Reader(broker, "reader", "q", prefetch=3)
    reader.accept(reader.got[1])
    return broker.queue("q").statistics().flowStopped and len(producer.held) == 1


@claim(31, "manual", "an example with '8K' and '10K' bytes", "K may be 1,000 or 1,024: the logic is the same")
def _():
    def states(k):
        size = {"qpid.max_size": 10 * k, "qpid.flow_stop_size": 8 * k, "qpid.flow_resume_size": 6 * k}
        broker = qf.Broker()
        producer = broker.session("producer")
        producer.queue_declare("q", size)
        qf.send(producer, "q", 8, size=k)
        at_stop = broker.queue("q").statistics().flowStopped
        qf.send(producer, "q", size=50)
        return at_stop, broker.queue("q").statistics().flowStopped

    return states(1000) == states(1024) == (False, True)


# %% [markdown] id="names-text"
# ## Names and units


# %% id="names"
@claim(2, "manual", "the boolean is called flowState", "it is called flowStopped, as the manual's table says")
def _():
    statistics = queue_with(0, {})[2]
    return hasattr(statistics, "flowStopped") and not hasattr(statistics, "flowState")


@claim(3, "groups", "qpidd --default-msg-group", "--default-message-group; the example does not start")
def _():
    return starts("--default-message-group=EMPTY-GROUP") and not starts("--default-msg-group=EMPTY-GROUP")


@claim(4, "manual", "the options are a 'queue capacity level'", "they are percentages, 0 to 100")
def _():
    return not starts("--default-flow-stop-threshold=101")


@claim(5, "manual", "bytes are message content", "header and content, since 2013")
def _():
    broker = qf.Broker()
    producer = broker.session("producer")
    producer.queue_declare("q")
    producer.message_transfer(qf.Message(100, routing_key="q"))
    return broker.queue("q").statistics().byteDepth == 111


@claim(
    23,
    "manual",
    "a queue is 'created with a default-queue-limit'",
    "that is the broker's; a queue has max_size",
)
def _():
    broker, _, _ = queue_with(0, {"default-queue-limit": 10_000})
    return broker.queue("q").flow_limit.thresholds.stop_size == 83_886_080


# %% [markdown] id="configuration-text"
# ## Configuration
#
# Here are the ones that hurt: a legal number is refused, a switch is only half a switch, a policy is not what
# its name says.


# %% id="configuration"
@claim(8, "broker", "the error text: stop 'must be less than' the limit", "equal is accepted")
def _():
    return not refusal({"qpid.max_count": 100, "qpid.flow_stop_count": 100})


@claim(9, "manual", "0 for both options switches the defaults off", "and 0 for stop alone does not start")
def _():
    stop, resume = "--default-flow-stop-threshold=0", "--default-flow-resume-threshold=0"
    return starts(stop, resume) and starts(resume) and not starts(stop)


@claim(10, "manual", "a limit in messages gets default thresholds too", "true now; not in the first release")
def _():
    return queue_with(9, {"qpid.max_count": 10})[2].flowStopped


@claim(
    11,
    "manual",
    "RING and RING-STRICT: no thresholds by default",
    "ring: never any; ring_strict: like reject",
)
def _():
    thresholds = {"qpid.max_count": 10, "qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1}
    ring = queue_with(5, {**thresholds, "qpid.policy_type": "ring"})[2]
    strict = queue_with(5, {**thresholds, "qpid.policy_type": "ring_strict"})[2]
    return not ring.flowStopped and strict.flowStopped


@claim(
    20, "manual", "you must keep stop ≥ resume", "the default resume takes part: a lone stop can be refused"
)
def _():
    return "flow_resume_count=70" in refusal({"qpid.max_count": 100, "qpid.flow_stop_count": 5})


@claim(24, "qpid-config", "ring replaces the 'oldest unacquired message'", "acquired ones as well")
def _():
    broker, producer, _ = queue_with(3, {"qpid.max_count": 3, "qpid.policy_type": "ring"})
    qf.Reader(broker, "reader", "q", prefetch=3)
    qf.send(producer, "q")
    return broker.queue("q").statistics().discardsRing == 1


@claim(
    25, "manual", "policies RING_STRICT and FLOW_TO_DISK", "unknown today; accepted, and treated as reject"
)
def _():
    def outcome(policy):
        try:
            queue_with(11, {"qpid.max_count": 10, "qpid.policy_type": policy})
        except qf.AmqpException as error:
            return error.code
        return "accepted"

    return outcome("ring_strict") == outcome("flow_to_disk") == outcome("reject") == 506


@claim(26, "qpid-config", "--limit-policy=ring-strict", "sends nothing: the queue rejects")
def _():

    return (
        "qpid.policy_type"
        not in qf.configuration.read_any("q --max-queue-count=10 --limit-policy=ring-strict").arguments
    )


@claim(28, "broker", "group_timestamp, alert_repeat_gap, strict", "accepted, and without any effect")
def _():
    broker = qf.Broker()
    groups = {"qpid.group_header_key": "g", "qpid.shared_msg_group": 1, "qpid.group_timestamp": 1}
    broker.management.create(
        "queue", "q", {**groups, "qpid.alert_repeat_gap": 5, "no-such-key": 1}, strict=True
    )
    qf.send(broker.session("p"), "q", "A-1", header="g")
    state = broker.management.query("queue", "q")["qpid.message_group_queue"]["group_state"]
    return state[0]["timestamp"] == 0


# %% [markdown] id="clients-text"
# ## Producers and full queues


# %% id="clients"
@claim(12, "manual", "the client goes on when one or more commands complete", "C++ waits for all of them")
def _():
    def next_step(kind):
        window = qf.workload.make_window(kind, 3)
        for number in range(3):
            window.sent(number)
        reported = qf.broker.RangeSet()
        reported.add(1)  # one is complete, and it is not the first
        window.reported(reported)
        return window.next_step()

    return next_step("ideal") is qf.workload.Step.SEND and next_step("qpid-cpp") is qf.workload.Step.SYNC


@claim(
    13, "ticket", "the broker forcibly disconnects the client", "it ends the session; the connection lives on"
)
def _():
    broker = qf.Broker()
    full, other = (broker.session(name, connection="one") for name in ("full", "other"))
    full.queue_declare("q", {"qpid.max_count": 1, "qpid.flow_stop_count": 0, "qpid.flow_stop_size": 0})
    try:
        qf.send(full, "q", 2)
    except qf.AmqpException as error:
        return error.code == 506 and not full.is_attached and other.is_attached
    return False


@claim(21, "manual", "up to 165 messages", "a bound: real C++ clients stop anywhere from 115 to 165")
def _():

    def stall(seed):
        senders = tuple(
            qf.Producer(
                f"C{n}", ("", "q"), rate=20_000, capacity=size, size=100, seed=seed + n, window="qpid-cpp"
            )
            for n, size in enumerate((50, 15))
        )
        run = qf.simulate(qf.Workload("stall", 1, {"q": {"qpid.flow_stop_count": 100}}, producers=senders))
        return sum(event.kind == "enqueued" for event in run.events)

    depths = {stall(10 * seed) for seed in range(30)}
    return max(depths) == 165 and len(depths) > 5


@claim(27, "AMQP", "unroutable messages are rejected unless told otherwise", "always dropped without a word")
def _():
    producer = qf.Broker().session("producer")
    (transfer,) = qf.send(producer, "nowhere")
    return transfer.is_complete and producer.is_attached


# %% [markdown] id="groups-text"
# ## Groups


# %% id="groups"
GROUPS = {"qpid.group_header_key": "G", "qpid.shared_msg_group": 1}


def group_after(settle):
    broker = qf.Broker()
    producer = broker.session("producer")
    producer.queue_declare("q", GROUPS)
    qf.send(producer, "q", "A-1 A-2", header="G")
    reader = qf.Reader(broker, "reader", "q")
    reader.fetch()
    settle(reader)
    return broker.management.query("queue", "q")["qpid.message_group_queue"]["group_state"][0]["consumer"]


@claim(15, "groups", "a group is free when all is acknowledged", "accepted, rejected or released")
def _():
    return not any(group_after(settle) for settle in (qf.Reader.accept, qf.Reader.reject, qf.Reader.release))


@claim(16, "groups", "not on LVQ or priority queues", "nor with paging; and sharing is not optional")
def _():
    others = ({"qpid.paging": True}, {"qpid.priorities": 2}, {"qpid.last_value_queue_key": "k"})
    wrong = [{"qpid.group_header_key": "G"}, *({**GROUPS, **other} for other in others)]
    return all(map(refusal, wrong))


@claim(17, "groups", "the identifier is a string", "integers work too; a boolean means the default group")
def _():
    def group_of(value):
        broker = qf.Broker()
        broker.session("p").queue_declare("q", GROUPS)
        broker.sessions["p"].message_transfer(qf.Message(1, "q", {"G": value}))
        return broker.management.query("queue", "q")["qpid.message_group_queue"]["group_state"][0]["group_id"]

    return group_of(5) == group_of("5") == "5" and group_of(True) == "qpid.no-group"


@claim(18, "groups", "the broker may pass the next message on", "an accept wakes no waiting consumer")
def _():
    broker = qf.Broker()
    producer = broker.session("producer")
    producer.queue_declare("q", GROUPS)
    qf.send(producer, "q", "A-1 A-2", header="G")
    first = qf.Reader(broker, "first", "q")
    first.fetch()
    waiting = qf.Reader(broker, "waiting", "q", prefetch=5)
    first.accept()
    return waiting.got == [] and broker.queue("q").statistics().messageCount == 1


# %% [markdown] id="history-text"
# ## History and neighbours
#
# The Java broker had flow control first; chapter 10 tells the story. One claim of the 31 no machine can
# check: in which release it came. The ticket says 0.9, the manual 0.10. It was merged into what became 0.10.


# %% id="history"
@claim(
    14,
    "ticket",
    "flow control is disabled in a cluster",
    "only for two months; then its state was replicated",
)
def _():

    broker, _, _ = queue_with(3, {"qpid.flow_stop_count": 1})
    state = qf.broker.replicate(broker.queue("q").flow_limit)
    return len(state.encoded) == 36 and state.pending_msg_seqs == ((2, 3),)


@claim(22, "ticket", "fixed in 0.9", "first released in 0.10 (documents, not checked by machine)")
def _():
    return True


@claim(29, "Java broker", "goes on when the queue holds less than the resume capacity", "at it, or less")
def _():
    broker, producer, _ = queue_with(
        4, {"qpid.flow_stop_size": 300, "qpid.flow_resume_size": 200}, qf.BrokerOptions(flow_control="java")
    )
    reader = qf.Reader(broker, "reader", "q")
    reader.take(1)
    at_300 = broker.queue("q").statistics().flowStopped
    reader.take(1)
    return at_300 and not broker.queue("q").statistics().flowStopped  # 200 bytes are enough


# %% [markdown] id="all-text"
# ## All of them
#
# Every row below was checked by the cell that printed it.

# %% id="all"
verdicts = [
    (number, document, says, right, check()) for number, document, says, right, check in sorted(errata)
]

assert [row[0] for row in verdicts] == [f"X-{number:02}" for number in range(1, 32)]
assert all(row[-1] is True for row in verdicts)
qf.Table(verdicts, ("id", "where", "it says", "in truth", "checked"), "31 corrections")

# %% [markdown] id="surprise-text"
# ## The surprise
#
# The worst mistakes are not the wrong sentences. X-01 is plainly wrong, and nobody was ever hurt by it,
# because the next line is right. X-20 is a *true* sentence that leaves something out, and it stops a queue
# from being created. X-18 says "may", which is right, and hides that a message can wait for ever beside an
# idle consumer.
#
# **A check finds wrong sentences. Only an experiment finds missing ones.**

# %% [markdown] id="real-text"
# ## What the real broker did
#
# For the corrections that contradict a document, the recordings are the proof. Three of them. A ring with
# explicit thresholds: never ON, and the eight messages become five.

# %% id="real"
ring = qf.beside(
    "fc-ring-exempt", (1, 2, 3), depth="queues.q.depth", ON="queues.q.flow", dropped="queues.q.ring"
)

assert ring.agrees
ring

# %% [markdown] id="real-strict-text"
# A policy of old times: accepted, and then it refuses like any other.

# %% id="real-strict"
strict = qf.beside("lim-strict-ring", depth="queues.q.depth", error="errors.p")

assert strict.agrees
strict

# %% [markdown] id="real-leave-text"
# And a held message that leaves a queue which stays ON: steps 7 and 8.

# %% id="real-leave"
leave = qf.beside(
    "fc-leave-accept", (1, 5, 6, 7, 8, 9), depth="queues.q.depth", ON="queues.q.flow", held="held.p"
)

assert leave.agrees
leave

# %% [markdown] id="compare-text"
# ## Your predictions
#
# True as they stand: 1 (X-01 is the draft's mistake, the manual has it right), and 6. Number 2 is X-05, 3 is
# X-30, 4 is X-11, 5 is X-13.

# %% id="compare" jupyter={"source_hidden": true}
predictions.compare(true=2, refused="stop must not be below resume")

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - A manual is a list of claims. Write each as a check, and run it again when the program changes.
# - Where documents and broker disagree, the recording decides.
# - What a text leaves out hurts more than what it gets wrong.
#
# ## Links on
#
# - Why some of these differ between proposal and program:
#   [10 · How it was designed](10-how-it-was-designed.ipynb).
# - `qflow rules` lists the rules themselves, and the tests for each.
