# %% [markdown] id="title"
# # 14 · Under the hood
#
# *35 minutes. Chapters 1 and 3 first; for readers who like code. Run the cells from top to bottom with
# Shift+Enter.*
#
# At the end of this chapter you can
#
# - read the engine as tables: inputs, outputs, and transitions between states;
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
GROUPED = {"qpid.flow_stop_count": 1, "qpid.group_header_key": "g", "qpid.shared_msg_group": 1}

broker = qf.Broker()
producer = broker.session("producer")
producer.queue_declare("q", GROUPED)
reader = qf.Reader(broker, "reader", "q")
qf.send(producer, "q", "A-1", header="g")

events = []
broker.observe(events.append)
qf.send(producer, "q", "A-2", header="g")  # the queue turns ON
reader.take(2)  # and OFF again

qf.Table(
    [(event.kind, event.session or event.queue, event.message or event.group) for event in events],
    ("event", "session or queue", "message or group"),
)

# %% [markdown] id="vocabulary-text"
# Every row is one of a few dozen kinds, each with one line of documentation. The same rows feed the pictures,
# the traces, the explanations, and Spark.

# %% id="vocabulary"
from qflow.broker.events import EFFECTS

for kind in ("enqueued", "held", "let_go", "flow_stopped", "group_freed"):
    print(f"  {kind:13} {EFFECTS[kind]}")

# %% [markdown] id="observers-text"
# ## The mechanism: a queue and its observers
#
# The queue itself knows nothing of flow control. It has a store, a limit policy, and a list of **observers**
# which it tells four events: enqueued, acquired, requeued, dequeued. The order matters: flow control comes
# last.

# %% id="observers"
from qflow.broker.message import QueueObserver

producer.queue_declare("limited", GROUPED | {"qpid.max_count": 10, "qpid.flow_stop_count": 8})
print("observers:", *(type(observer).__name__ for observer in broker.queue("limited").observers))
print("are called: ", *(name for name in vars(QueueObserver) if not name.startswith("_")))

# %% [markdown] id="machine-text"
# ### Flow control as a table
#
# A state machine is best read as a table. We do not write this one down: we ask the engine. For a stop
# threshold of 4 and a resume threshold of 2, each row is a depth, and the entries say which state follows
# when a message
# comes or goes, for each state it can be in at that depth.


# %% id="machine"
def state_after(depth, is_on, action):
    """Bring a queue to a depth and a state, if that is possible; return the state after one more action."""
    broker = qf.Broker()
    producer = broker.session("producer")
    producer.queue_declare("q", {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2})
    reader = qf.Reader(broker, "reader", "q")
    most = max(depth, 5) if is_on else depth
    qf.send(producer, "q", most)
    reader.take(most - depth)
    if broker.queue("q").statistics().flowStopped != is_on:
        return "cannot be"
    if action == "comes":
        qf.send(producer, "q")
    reader.take(action == "goes")
    return "ON" if broker.queue("q").statistics().flowStopped else "OFF"


WAYS = [(is_on, action) for is_on in (False, True) for action in ("comes", "goes")]
qf.Table(
    [[depth, *(state_after(depth, *way) for way in WAYS)] for depth in range(7)],
    ("depth", "OFF, one comes", "OFF, one goes", "ON, one comes", "ON, one goes"),
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
print(*qf.state_space_run().claims[:5], sep="\n")

# %% [markdown] id="invariants-text"
# ## What must always be true
#
# A table gives the effect of a step. An **invariant** is a property that no step may ever break. Here are
# six, in words and in code. They are checked after each of 3,000 random commands of three producers, whose
# capacities are 2, 3 and 1, and two consumers.

# %% id="invariants"
import random

INVARIANTS = {
    "OFF means that nothing is held": lambda q, held, groups: q.flowStopped or not held,
    "above the stop threshold it is ON": lambda q, held, groups: q.flowStopped or q.msgDepth <= 8,
    "below the resume threshold it is OFF": lambda q, held, groups: not q.flowStopped or q.msgDepth >= 5,
    "depth is what came less what went": lambda q, held, groups: (
        q.msgDepth == q.msgTotalEnqueues - q.msgTotalDequeues
    ),
    "the depth is at most stop + capacities": lambda q, held, groups: q.msgDepth <= 8 + 2 + 3 + 1,
    "a group is owned exactly while something of it is acquired": lambda q, held, groups: all(
        bool(group.owner) == bool(group.acquired) for group in groups
    ),
}

chance = random.Random(7)
broker = qf.Broker()
windows = {broker.session(f"p{capacity}"): capacity for capacity in (2, 3, 1)}
THRESHOLDS = {"qpid.flow_stop_count": 8, "qpid.flow_resume_count": 5}
next(iter(windows)).queue_declare("q", GROUPED | THRESHOLDS)
readers = [qf.Reader(broker, "c1", "q", prefetch=1), qf.Reader(broker, "c2", "q", prefetch=4)]

for number in range(3_000):
    producer, reader = chance.choice(list(windows)), chance.choice(readers)
    if chance.random() < 0.55:
        if len(producer.held) < windows[producer]:
            qf.send(producer, "q", f"{chance.choice('ABCD')}-{number}", header="g")
    elif reader.holds:
        settle = chance.choice((reader.accept, reader.accept, reader.reject, reader.release))
        settle(chance.choice(reader.holds))
    queue, held = broker.queue("q"), [transfer for session in windows for transfer in session.held]
    for sentence, holds in INVARIANTS.items():
        assert holds(queue.statistics(), held, queue.groups.groups.values()), sentence

print(f"{len(INVARIANTS)} invariants held after each of {number + 1:,} commands")

# %% [markdown] id="time-text"
# ### Time travel
#
# The whole state is a plain value. A broker restored from it continues as if nothing had happened; two
# brokers with the same hash have the same future. That is how the labs step back, and how a trace can be
# proved right: played again, it gives the same events.

# %% id="time"
twin = qf.Broker.restore(broker.snapshot())
for one in (broker, twin):
    one.session("late").queue_declare("another")
    qf.send(one.sessions["late"], "another", 3)

print("the same state:", twin.state_hash() == broker.state_hash())

# %% [markdown] id="mutation-text"
# ## The surprise: break it, and see who notices
#
# A test that never fails is worth nothing. So let us change the engine, one rule at a time, and play the
# recorded scenarios about flow control on it. Each change is a mistake that is easily made when typing. It
# is made in a copy of the engine; the one that all other cells use stays as it is.

# %% id="mutations"
from qflow.teaching.changed import changed_engine


def at_stop(levels, count, size):
    at_count = levels.stop_count and count >= levels.stop_count
    return bool(at_count or (levels.stop_size and size >= levels.stop_size))


def at_resume(levels, count, size):
    few = not levels.resume_count or count <= levels.resume_count
    return few and (not levels.resume_size or size <= levels.resume_size)


def either_resumes(levels, count, size):
    return count < levels.resume_count or size < levels.resume_size


def only_messages(levels, count, size):
    return bool(levels.stop_count) and count > levels.stop_count


def rounded(most, ratio):
    return round(most * ratio / 100)


ON, OFF = "exceeds_stop", "may_resume"
CHANGES = [
    (ON, at_stop, "While [it] is less than or equal to 900, the […] state remains OFF."),
    (OFF, at_resume, "it remains ON until the total number […] is less than 500."),
    (OFF, either_resumes, "[It] remains ON until both resume thresholds are satisfied."),
    (ON, only_messages, "[It] is ON when either stop threshold value is crossed."),
    ("_resume_default", rounded, "(none; the manual does not say how percentages are rounded)"),
]


def who_notices(where, change):
    with changed_engine("flow_limit", where, change) as engine:
        return engine.noticed_by("flow-control")


about_flow = [scenario for scenario in qf.scenarios().values() if scenario.area == "flow-control"]
noticed = [who_notices(where, change) for where, change, _ in CHANGES]
qf.Table(
    [
        (change.__name__, says, len(found), found[0])
        for (_, change, says), found in zip(CHANGES, noticed, strict=True)
    ],
    ("the change", "the manual's sentence that is false now", "recordings that notice", "such as"),
    f"five small changes, {len(about_flow)} recorded scenarios",
)

# %% [markdown] id="mutation-look-text"
# The last row is the interesting one: no sentence of the manual notices, only the recordings do.
#
# And this is what noticing looks like. The scenario of chapter 1, with the first change made: where the
# broker and the model differ, the table shows both.

# %% id="mutation-look"
columns = {"depth": "queues.q.depth", "ON": "queues.q.flow", "held": "held.p"}
with changed_engine("flow_limit", ON, at_stop) as engine:
    wrong = engine.beside("fc-doc-900-500", (2, 3, 4, 9), **columns)
wrong

# %% [markdown] id="yours-text"
# ### Your own
#
# Now change something yourself. Replace the function below, and run the two cells. Can you find a change
# that **no** recording notices? (If you do, you have found a rule without a test; please report it.)


# %% id="yours"
def mine(levels, count, size):
    """Say whether so much is above a stop threshold: change me."""
    above_count = levels.stop_count and count > levels.stop_count
    return bool(above_count or (levels.stop_size and size > levels.stop_size))


mine_noticed = who_notices(ON, mine)
print(f"{len(mine_noticed)} of {len(about_flow)} recordings notice", *mine_noticed[:5])

# %% [markdown] id="real-text"
# ## What the real broker did
#
# Unchanged again, the same scenario:

# %% id="real"
qf.beside("fc-doc-900-500", (2, 3, 4, 9), **columns)

# %% [markdown] id="answer-text"
# ## Back to the question
#
# "While the total number of enqueued messages is less than or equal to 900, the queue's flow control state
# remains OFF" is the sentence. And the people who find out are those who record a program's behaviour
# **at** a threshold, not near it.

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
share = len(noticed[0]) / len(about_flow)
print(f"{share:.0%} of the scenarios notice the first change")

predictions.compare(observers=1, first="yes" if share > 0.5 else "no")

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - Commands in, events out; no clock, no chance. The same commands always give the same events.
# - A queue tells its **observers**; groups, alerts and flow control are three of them.
# - A state machine is a table; an **invariant** is a sentence that no step may break.
# - A check is worth the faults it would notice: break the rule, and look.
#
# ## Where next
#
# - In code: start at `qflow/broker/queue.py`, continue with `flow_limit.py` and `groups.py`; a file is
#   named after the real broker's class where there is one.
# - Next: [15 · Your own clients](15-your-own-clients.ipynb), which puts the engine behind a socket.
# - `qflow conform data/recordings/scenarios/*.json*` plays every recording; `qflow rules` lists the rules
#   with their tests.
