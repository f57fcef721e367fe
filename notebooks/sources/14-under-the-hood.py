# %% [markdown] id="title"
# # 14 · Under the hood
#
# *35 minutes. Chapters 1 and 3 first; for readers who like code. Run the cells from top to bottom with
# Shift+Enter.*
#
# At the end of this chapter you can
#
# - read the engine as tables: what goes in, what comes out, and which state follows which;
# - say which sentences must hold after every step, and check them on thousands of random ones;
# - break one rule on purpose, and find the sentence of the manual, and the recording, that notices.
#
# **A question to begin with.** A developer changes one character in a broker: `>` becomes `>=`. All programs
# still work. Which sentence of the manual is now false, and who would ever find out?

# %% [markdown] id="predict-text"
# ## Predict before you run

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("14-under-the-hood")
predictions.ask()

# %% [markdown] id="naive-text"
# ## The naive way: watch the broker from outside
#
# From outside you see messages come and go. Inside, one transfer is a chain of small steps, and the engine
# shows each of them to its observer. This is all there is: **commands go in, events come out.** The
# engine has no
# clock, no network, no threads and no chance; the caller sets its time.

# %% id="naive"
broker = qf.Broker()
producer = broker.session("producer")
producer.queue_declare(
    "q", {"qpid.flow_stop_count": 1, "qpid.group_header_key": "g", "qpid.shared_msg_group": 1}
)
reader = qf.Reader(broker, "reader", "q")
qf.send(producer, "q", "A-1", header="g")

events = []
broker.observe(events.append)
qf.send(producer, "q", "A-2", header="g")  # the queue turns ON
reader.take(2)  # and OFF again
broker.observe(None)

kinds = [event.kind for event in events]
assert kinds[:4] == ["message.transfer", "enqueued", "flow_stopped", "held"]
second = [event.kind for event in events if event.message == "A-2"]
assert second.index("held") < second.index("let_go") < second.index("completed")
qf.Table(
    [(event.kind, event.session or event.queue, event.message or event.group) for event in events],
    ("event", "session or queue", "message or group"),
    "one transfer and two fetches, step by step",
)

# %% [markdown] id="vocabulary-text"
# Every row is one of a few dozen kinds, each with one line of documentation. The same rows feed the pictures,
# the traces, the explanations, and Spark.

# %% id="vocabulary"
from qflow.broker.events import COMMANDS, EFFECTS

for kind in ("enqueued", "held", "let_go", "flow_stopped", "group_freed"):
    print(f"  {kind:13} {EFFECTS[kind]}")

assert set(kinds) <= set(COMMANDS) | set(EFFECTS)

# %% [markdown] id="observers-text"
# ## The mechanism: a queue and its observers
#
# The queue itself knows nothing of flow control. It has a store, a limit policy, and a list of **observers**
# whom it tells four things: enqueued, acquired, requeued, dequeued. The order matters: flow control comes
# last.

# %% id="observers"
from qflow.broker.message import QueueObserver

broker = qf.Broker()
broker.session("admin").queue_declare(
    "q", {"qpid.max_count": 10, "qpid.group_header_key": "g", "qpid.shared_msg_group": 1}
)
observers = [type(observer).__name__ for observer in broker.queue("q").observers]
called = [name for name in vars(QueueObserver) if not name.startswith("_")]
print("observers:", *observers)
print("are called: ", *called)

assert observers == ["MessageGroupManager", "ThresholdAlerts", "QueueFlowLimit"]
assert called == ["enqueued", "acquired", "requeued", "dequeued"]

# %% [markdown] id="machine-text"
# ### Flow control as a table
#
# A state machine is best read as a table. We do not write this one down: we ask the engine. For a stop
# threshold of 4 and a resume threshold of 2, each row is a depth, and the entries say which state follows
# when a message
# comes or goes, for each state it can be in at that depth.

# %% id="machine"
STOP, RESUME = 4, 2


def state_after(depth, is_on, action):
    """Bring a queue to a depth and a state, if that is possible; return the state after one more action."""
    broker = qf.Broker()
    producer = broker.session("producer")
    producer.queue_declare("q", {"qpid.flow_stop_count": STOP, "qpid.flow_resume_count": RESUME})
    reader = qf.Reader(broker, "reader", "q")
    if is_on:
        qf.send(producer, "q", max(depth, STOP + 1))
        reader.take(max(depth, STOP + 1) - depth)
    else:
        qf.send(producer, "q", depth)
    if broker.queue("q").statistics().flowStopped != is_on:
        return "cannot be"
    if action == "comes":
        qf.send(producer, "q")
    elif depth:
        reader.take(1)
    else:
        return "–"
    return "ON" if broker.queue("q").statistics().flowStopped else "OFF"


machine = [
    [depth, *(state_after(depth, is_on, action) for is_on in (False, True) for action in ("comes", "goes"))]
    for depth in range(7)
]

assert [row[1] for row in machine] == ["OFF"] * 4 + ["ON"] + ["cannot be"] * 2
assert [row[4] for row in machine] == ["cannot be"] * 2 + ["OFF"] + ["ON"] * 4
qf.Table(
    machine,
    ("depth", "OFF, one comes", "OFF, one goes", "ON, one comes", "ON, one goes"),
    "the next state; stop 4, resume 2",
)

# %% [markdown] id="machine-then"
# Both states are possible at depths 2, 3 and 4. That band is the hysteresis of chapter 1. Everywhere else the
# depth alone tells the state.

# %% [markdown] id="states-text"
# ### All states at once
#
# With two producers the state is more than a depth. The lab draws every state that a small configuration can
# reach, and every way between them. Click one, and the engine goes there.

# %% id="states-lab"
qf.state_space_lab()

# %% id="states-words"
space = qf.state_space_run()
print(*space.claims[:5], sep="\n")

assert "No state is deeper than 6 messages" in space.claims[1]

# %% [markdown] id="invariants-text"
# ## What must always be true
#
# A table says what a step does. An **invariant** says what no step may ever break. Here are six, in words and
# in code. They are checked after each of 3,000 random commands of three producers and two consumers.

# %% id="invariants"
import random

INVARIANTS = {
    "OFF means that nothing is held": lambda b, q, h, p: q.flowStopped or not h,
    "above the stop threshold it is ON": lambda b, q, h, p: q.flowStopped or q.msgDepth <= 8,
    "below the resume threshold it is OFF": lambda b, q, h, p: not q.flowStopped or q.msgDepth >= 5,
    "depth is what came less what went": lambda b, q, h, p: (
        q.msgDepth == q.msgTotalEnqueues - q.msgTotalDequeues
    ),
    "the depth is at most stop + capacities": lambda b, q, h, p: q.msgDepth <= 8 + 2 + 3 + 1,
    "a group is owned exactly while something of it is acquired": lambda b, q, h, p: all(
        bool(group.owner) == bool(group.acquired) for group in b.queue("q").groups.groups.values()
    ),
}


def random_walk(steps, seed):
    """Let clients do random things; return how often each invariant was checked, and which one broke."""
    chance = random.Random(seed)
    broker = qf.Broker()
    producers = {broker.session(f"p{capacity}"): capacity for capacity in (2, 3, 1)}
    next(iter(producers)).queue_declare(
        "q",
        {
            "qpid.flow_stop_count": 8,
            "qpid.flow_resume_count": 5,
            "qpid.group_header_key": "g",
            "qpid.shared_msg_group": 1,
        },
    )
    readers = [qf.Reader(broker, name, "q", prefetch=prefetch) for name, prefetch in (("c1", 1), ("c2", 4))]
    for number in range(steps):
        if chance.random() < 0.55:
            producer = chance.choice(list(producers))
            if len(producer.held) < producers[producer]:
                qf.send(producer, "q", f"{chance.choice('ABCD')}-{number}", header="g")
        else:
            reader = chance.choice(readers)
            if reader.holds:
                settle = chance.choice((reader.accept, reader.accept, reader.reject, reader.release))
                settle(chance.choice(reader.holds))
        held = [transfer for producer in producers for transfer in producer.held]
        for sentence, holds in INVARIANTS.items():
            if not holds(broker, broker.queue("q").statistics(), held, producers):
                return number + 1, sentence
    return steps, None


steps, broken = random_walk(3_000, seed=7)
print(f"{len(INVARIANTS)} invariants held after each of {steps:,} commands")

assert broken is None and steps == 3_000

# %% [markdown] id="time-text"
# ### Time travel
#
# The whole state is a plain value. A broker restored from it goes on as if nothing had happened; two brokers
# with the same hash have the same future. That is how the labs step back, and how a trace can be proved
# right: played
# again, it gives the same events.

# %% id="time"
broker = qf.Broker()
producer = broker.session("producer")
producer.queue_declare("q", {"qpid.flow_stop_count": 2})
qf.send(producer, "q", 2)
before = broker.snapshot()
qf.send(producer, "q", 3)
after = broker.state_hash()

twin = qf.Broker.restore(before)
for _ in range(3):
    qf.send(twin.sessions["producer"], "q")
print("the same state:", twin.state_hash() == after)

assert twin.state_hash() == after

# %% [markdown] id="mutation-text"
# ## The surprise: break it, and see who notices
#
# A test that never fails is worth nothing. So let us change the engine, one rule at a time, and play the
# recorded scenarios about flow control on it. Each change is a mistake that is easily made when typing. It
# is made in a copy of the engine; the one that all other cells use stays as it is.

# %% id="mutations"
from qflow.conformance.report import check
from qflow.teaching.changed import changed_engine

about_flow = [scenario for scenario in qf.scenarios().values() if scenario.area == "flow-control"]


def at_stop(limit):
    levels = limit.thresholds
    at_count = levels.stop_count and limit.count >= levels.stop_count
    return bool(at_count or (levels.stop_size and limit.size >= levels.stop_size))


def at_resume(limit):
    levels = limit.thresholds
    few = not levels.resume_count or limit.count <= levels.resume_count
    return few and (not levels.resume_size or limit.size <= levels.resume_size)


def either_resumes(limit):
    levels = limit.thresholds
    return limit.count < levels.resume_count or limit.size < levels.resume_size


def only_messages(limit):
    return bool(limit.thresholds.stop_count) and limit.count > limit.thresholds.stop_count


MUTATIONS = {
    "ON at the stop threshold": ("QueueFlowLimit._above_stop", at_stop),
    "OFF at the resume threshold": ("QueueFlowLimit._below_resume", at_resume),
    "OFF when one of both units is low": ("QueueFlowLimit._below_resume", either_resumes),
    "bytes never turn it ON": ("QueueFlowLimit._above_stop", only_messages),
    "the default resume is rounded": ("_resume_default", lambda most, ratio: round(most * ratio / 100)),
}
BREAKS = {
    "ON at the stop threshold": "While [it] is less than or equal to 900, the […] state remains OFF.",
    "OFF at the resume threshold": "it remains ON until the total number […] is less than 500.",
    "OFF when one of both units is low": "[It] remains ON until both resume thresholds are satisfied.",
    "bytes never turn it ON": "[It] is ON when either stop threshold value is crossed.",
    "the default resume is rounded": "(none; the manual does not say how percentages are rounded)",
}


def who_notices(mutation):
    with changed_engine("flow_limit", *mutation) as engine:
        return engine.noticed_by("flow-control")


assert all(check(scenario).agrees for scenario in about_flow)
noticed = {name: who_notices(mutation) for name, mutation in MUTATIONS.items()}

assert all(noticed.values())
qf.Table(
    [(name, BREAKS[name], len(found), found[0]) for name, found in noticed.items()],
    ("the change", "the manual's sentence that is false now", "recordings that notice", "such as"),
    f"five small changes, {len(about_flow)} recorded scenarios",
)

# %% [markdown] id="mutation-look-text"
# The last row is the interesting one: no sentence of the manual notices, only the recordings do.
#
# And this is what noticing looks like. The scenario of chapter 1, with the first change made: where the
# broker and the model differ, the table shows both.

# %% id="mutation-look"
with changed_engine("flow_limit", *MUTATIONS["ON at the stop threshold"]) as engine:
    wrong = engine.beside(
        "fc-doc-900-500", (2, 3, 4, 9), depth="queues.q.depth", ON="queues.q.flow", held="held.p"
    )

assert not wrong.agrees
assert "≠" in repr(wrong)
wrong

# %% [markdown] id="yours-text"
# ### Your own
#
# Now change something yourself. Replace the function below, and run the two cells. Can you find a change
# that **no** recording notices? (If you do, you have found a rule without a test; please report it.)


# %% id="yours"
def mine(limit):
    """Say whether the queue is above its stop threshold: change me."""
    levels = limit.thresholds
    above_count = levels.stop_count and limit.count > levels.stop_count
    return bool(above_count or (levels.stop_size and limit.size > levels.stop_size))


mine_noticed = who_notices(("QueueFlowLimit._above_stop", mine))
print(f"{len(mine_noticed)} of {len(about_flow)} recordings notice", *mine_noticed[:5])

# %% [markdown] id="real-text"
# ## What the real broker did
#
# Unchanged again, the same scenario:

# %% id="real"
right = qf.beside("fc-doc-900-500", (2, 3, 4, 9), depth="queues.q.depth", ON="queues.q.flow", held="held.p")

assert right.agrees
right

# %% [markdown] id="answer-text"
# ## Back to the question
#
# "While the total number of enqueued messages is less than or equal to 900, the queue's flow control state
# remains OFF" is the sentence. And those who find out are people who write down what a program did **at** a
# threshold, not near it.

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
share = len(noticed["ON at the stop threshold"]) / len(about_flow)
print(f"{share:.0%} of the scenarios notice the first change")

predictions.compare(observers=1, first="yes" if share > 0.5 else "no")

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - Commands in, events out; no clock, no chance. The same commands always give the same events.
# - A queue tells its **observers**; groups, alerts and flow control are three of them.
# - A state machine is a table; an **invariant** is a sentence that no step may break.
# - A check is worth what it would notice: break the rule, and look.
#
# ## Links on
#
# - In code: start at `qflow/broker/queue.py`, go on to `flow_limit.py` and `groups.py`; a file is named
#   after the real broker's class where there is one.
# - Next: [15 · Your own clients](15-your-own-clients.ipynb), for which the engine is put behind a socket.
# - `qflow conform data/recordings/scenarios/*.json*` plays every recording; `qflow rules` lists the rules
#   with their tests.
