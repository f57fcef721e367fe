# %% [markdown] id="title"
# # 7 · Configuration in all its spellings
#
# *30 minutes. Chapters 1 and 2 first. Run the cells from top to bottom with Shift+Enter.*
#
# At the end of this chapter you can
#
# - say which thresholds a queue gets if you name none, to the last message;
# - write the same queue in four spellings, and read the broker's answer;
# - explain why a reasonable-looking number is refused;
# - switch flow control off, for one queue or for all, and say which queues never have it.
#
# **A question to begin with.** A queue for 100 messages shall stop early, at 5. `qpid.flow_stop_count=5`, and
# the broker refuses: `qpid.flow_resume_count=70 must be less or equal`. Nobody has asked for 70.

# %% [markdown] id="predict-text"
# ## Predict before you run
#
# The broker's defaults are: stop at 80 percent of the limit, resume at 70 percent.

# %% id="predict" jupyter={"source_hidden": true}
import qflow as qf

predictions = qf.Predictions("07-configuration")
predictions.ask()

# %% [markdown] id="naive-text"
# ## The naive way: set the one number you care about

# %% id="naive"
try:
    qf.Broker().session("admin").queue_declare("orders", {"qpid.max_count": 100, "qpid.flow_stop_count": 5})
except qf.AmqpException as error:
    refusal = error

print(refusal)

assert refusal.code == 542

# %% [markdown] id="naive-then"
# You gave one of two thresholds of the unit; the broker filled in the other one, from its percentage: 70 of
# 100. And 70 is above 5. **A legal value can be refused because of a default you did not mention.** The
# manual's sentence, that you must keep stop ≥ resume, leaves that out. *(FC-07)*

# %% [markdown] id="spellings-text"
# ## Four spellings of one queue
#
# | where | how |
# |---|---|
# | command line | `qpid-config add queue orders --max-queue-count=1000 --flow-stop-count=900` |
# | AMQP | the `arguments` map of `queue.declare` |
# | messaging clients | an address string with `x-declare` |
# | management (QMF) | the `properties` of the broker's method `create` |
#
# `qflow.configuration` reads them all, tries them on an engine, and says what comes of it. Nothing is
# computed on the side: what you read is what that queue has.

# %% id="spellings"
LINE = "orders --max-queue-count=1000 --flow-stop-count=900 --flow-resume-count=500"
MAP = '{"qpid.max_count": 1000, "qpid.flow_stop_count": 900, "qpid.flow_resume_count": 500}'
ADDRESS = (
    "orders; {create: always, node: {type: queue, x-declare: {arguments: "
    "{'qpid.max_count': 1000, 'qpid.flow_stop_count': 900, 'qpid.flow_resume_count': 500}}}}"
)

same = [qf.configuration.read_any(text, name="orders") for text in (LINE, MAP, ADDRESS)]
broker = qf.Broker()
broker.management.create("queue", "orders", dict(same[0].arguments))

print(qf.configuration.report(qf.configuration.explain(same[0])))

assert same[0] == same[1] == same[2]
assert broker.queue("orders").flow_limit.thresholds.stop_count == 900

# %% [markdown] id="spellings-then"
# In a terminal, the same report is printed by `qflow config add queue orders --max-queue-count=1000 …`, with
# the options of the real `qpid-config`.
#
# Two things are worth reading slowly: the thresholds in **bytes**, which nobody mentioned (chapter 2), and
# the hint at the end, which is the rule of chapter 4.

# %% [markdown] id="defaults-text"
# ## The defaults
#
# For each unit with a limit, the stop threshold is 80 percent of it, **rounded half up**, and the resume
# threshold is 70 percent, **cut off**. A limit of 1 has a resume threshold of 0 then, which means: the same
# as stop.


# %% id="defaults"
def thresholds(arguments, options=None):
    broker = qf.Broker(options)
    broker.session("admin").queue_declare("q", arguments)
    limit = broker.queue("q").flow_limit
    return limit.thresholds if limit is not None else None


LIMITS = (1, 2, 3, 4, 5, 7, 10, 90, 100, 170, 180, 1000)
levels = {limit: thresholds({"qpid.max_count": limit}) for limit in LIMITS}

assert [level.stop_count for level in levels.values()] == [1, 2, 2, 3, 4, 6, 8, 72, 80, 136, 144, 800]
assert [level.resume_count for level in levels.values()] == [1, 1, 2, 2, 3, 4, 7, 62, 70, 118, 125, 700]
qf.Table(
    [
        (limit, level.stop_count, level.resume_count, f"{limit * 8 / 10:g}", f"{limit * 7 / 10:g}")
        for limit, level in levels.items()
    ],
    ("limit", "stop", "resume", "80 percent exactly", "70 percent exactly"),
    "what the broker makes of a limit in messages",
)

# %% [markdown] id="surprise-text"
# ## The surprise: 62
#
# 70 percent of 90 is 63, and the broker says 62. It computes 90 · (70/100) in binary floating point, and
# 0.7 is not a binary number. The product is a hair below 63, and cutting off does the rest. Python computes
# like C++ does:

# %% id="surprise"
print("90 * (70 / 100)       =", 90 * (70 / 100))
print("cut off               =", int(90 * (70 / 100)))

unlucky = [
    limit
    for limit in range(10, 2001, 10)
    if thresholds({"qpid.max_count": limit}).resume_count != limit * 7 // 10
]
print(f"of the 200 round limits up to 2,000, {len(unlucky)} are unlucky, from {unlucky[:4]} on")

assert unlucky[:3] == [90, 170, 180]
assert all(thresholds({"qpid.max_count": limit}).resume_count == limit * 7 // 10 - 1 for limit in unlucky)

# %% [markdown] id="ratios-text"
# ### Other percentages
#
# The broker takes them from two options. The manual's example: with 90 and 75 percent, a queue of 10,000
# bytes stops above 9,000 and resumes below 7,500.

# %% id="ratios"
started = qf.BrokerOptions.parse(["--default-flow-stop-threshold=90", "--default-flow-resume-threshold=75"])
in_bytes = thresholds({"qpid.max_size": 10_000}, started)
in_messages = thresholds({"qpid.max_count": 10_000}, started)

print("bytes:   ", in_bytes.stop_size, in_bytes.resume_size)
print("messages:", in_messages.stop_count, in_messages.resume_count)

assert (in_bytes.stop_size, in_bytes.resume_size) == (9000, 7500)
assert (in_messages.stop_count, in_messages.resume_count) == (9000, 7500)

# %% [markdown] id="startup-text"
# The two are checked when the broker starts. Resume above stop is refused there, and again a default you did
# not mention takes part: a stop ratio of 60 alone does not start, because resume is still 70. Neither does a
# stop ratio of 0 alone.

# %% id="startup"
STARTS = [
    "",
    "--default-flow-stop-threshold=90 --default-flow-resume-threshold=75",
    "--default-flow-stop-threshold=60",
    "--default-flow-stop-threshold=0",
    "--default-flow-stop-threshold=0 --default-flow-resume-threshold=0",
    "--default-flow-resume-threshold=0",
    "--default-flow-stop-threshold=101",
]


def start(line):
    try:
        qf.BrokerOptions.parse(line.split())
    except qf.StartupError as error:
        return "does not start", str(error)
    return "starts", ""


outcomes = [(line or "(no options)", *start(line)) for line in STARTS]

assert [outcome for _, outcome, _ in outcomes] == ["starts"] * 2 + ["does not start"] * 2 + ["starts"] * 2 + [
    "does not start"
]
qf.Table(outcomes, ("qpidd …", "outcome", "because"), "starting the broker")

# %% [markdown] id="allowed-text"
# ## What is accepted, and what is not
#
# Per unit, and in this order: resume must not be above stop; resume 0 means *as stop*; and stop must not be
# above the limit. (The error text says "must be less than", and equality is allowed nevertheless.) If stop
# is 0, that unit is not checked at all.

# %% id="allowed"
ATTEMPTS = [
    {"max_count": 100, "flow_stop_count": 5},
    {"max_count": 100, "flow_stop_count": 5, "flow_resume_count": 0},
    {"max_count": 100, "flow_stop_count": 70},
    {"max_count": 100, "flow_stop_count": 100},
    {"max_count": 100, "flow_stop_count": 101},
    {"flow_stop_count": 10},
    {"flow_stop_count": 10, "flow_resume_count": 11},
    {"flow_stop_size": 1000},
    {"flow_stop_size": 200 * 1024 * 1024, "flow_resume_size": 1},
    {"flow_stop_size": 200 * 1024 * 1024, "flow_resume_size": 1, "max_size": 0},
    {"flow_stop_count": "3"},
    {"flow_stop_count": "three"},
    {"flow_stop_count": 3.5},
]


def attempt(arguments):
    try:
        got = thresholds({f"qpid.{key}": value for key, value in arguments.items()})
    except qf.AmqpException as error:
        return "refused", error.text
    return "accepted", f"count {got.stop_count}/{got.resume_count}, size {got.stop_size}/{got.resume_size}"


answers = [(", ".join(f"{k}={v!r}" for k, v in a.items()), *attempt(a)) for a in ATTEMPTS]
accepted = [number for number, (_, verdict, _) in enumerate(answers) if verdict == "accepted"]

assert accepted == [1, 2, 3, 5, 9, 10]
qf.Table(
    answers,
    ("arguments (qpid. left out)", "verdict", "stop/resume in force, or the broker's words"),
    "on a broker with its defaults",
)

# %% [markdown] id="allowed-then"
# Note the last but four: 200 MiB is above the *broker's* limit of 100 MiB, although the queue has none of its
# own. An explicit `max_size=0` means no limit, and then it is accepted.

# %% [markdown] id="off-text"
# ## Switching it off
#
# - **For all queues:** both percentages 0 when the broker starts. A queue may still set its own thresholds.
# - **For one queue:** `flow_stop_count` **and** `flow_stop_size` 0. One alone leaves the default of the
#   other.
# - **Ring queues** never have flow control, not even when thresholds are given: they make room themselves.

# %% id="off"
no_defaults = qf.BrokerOptions(default_flow_stop_threshold=0, default_flow_resume_threshold=0)
LIMIT = {"qpid.max_count": 10}
RING = {**LIMIT, "qpid.policy_type": "ring"}
CASES = [
    ("defaults", None, LIMIT),
    ("both percentages 0", no_defaults, LIMIT),
    ("both percentages 0, the queue sets its own", no_defaults, {**LIMIT, "qpid.flow_stop_count": 8}),
    ("flow_stop_count=0", None, {**LIMIT, "qpid.flow_stop_count": 0}),
    ("both stops 0", None, {**LIMIT, "qpid.flow_stop_count": 0, "qpid.flow_stop_size": 0}),
    ("ring", None, RING),
    ("ring, with thresholds", None, {**RING, "qpid.flow_stop_count": 5, "qpid.flow_resume_count": 9}),
    ("ring_strict, a policy of old times", None, {**LIMIT, "qpid.policy_type": "ring_strict"}),
    ("self-destruct", None, {**LIMIT, "qpid.policy_type": "self-destruct"}),
]


def what_stops(options, arguments):
    level = thresholds(arguments, options)
    if level is None:
        return "nothing"
    units = [("messages", level.stop_count), ("bytes", level.stop_size)]
    return " and ".join(f"{unit} above {stop}" for unit, stop in units if stop)


stops = [(name, what_stops(options, arguments)) for name, options, arguments in CASES]

assert [what for _, what in stops if what == "nothing"] == ["nothing"] * 4
assert dict(stops)["flow_stop_count=0"] == "bytes above 83886080"
qf.Table(stops, ("queue for 10 messages", "what stops its producers"), "switched off, or not")

# %% id="ring"
broker = qf.Broker()
session = broker.session("p")
session.queue_declare("ring", {**RING, "qpid.flow_stop_count": 5})
qf.send(session, "ring", 20)
ring = broker.queue("ring").statistics()
print(f"{ring.msgDepth} messages, {ring.discardsRing} dropped, ON: {ring.flowStopped}")

assert not ring.flowStopped and ring.discardsRing == 10

# %% [markdown] id="ring-then"
# `ring_strict` is worth a second look. It was a policy until 2012. Today the broker does not know it, accepts
# it nevertheless, and the queue refuses messages like any other, **with** flow control. And the tool
# `qpid-config` still offers it as `--limit-policy=ring-strict`, and sends nothing at all. `explain` says so:

# %% id="strict"
strict = qf.configuration.explain(
    qf.configuration.read_any("orders --max-queue-count=10 --limit-policy=ring-strict")
)
print(*(remark.text for remark in strict.remarks if remark.kind == "warning"), sep="\n")

assert any("sends nothing" in remark.text for remark in strict.remarks)

# %% [markdown] id="later-text"
# ## Afterwards
#
# Thresholds are fixed for the life of a queue. Declaring it again with other thresholds is accepted without
# a word, and changes nothing. And the queue's own list of arguments shows what was asked for, not what came
# of it.

# %% id="later"
broker = qf.Broker()
admin = broker.session("admin")
admin.queue_declare("q", {"qpid.max_count": 100})
admin.queue_declare("q", {"qpid.max_count": 100, "qpid.flow_stop_count": 90, "qpid.flow_resume_count": 10})

queue = broker.queue("q")
print("arguments shown:    ", dict(queue.settings.arguments))
print(
    "thresholds in force:", queue.flow_limit.thresholds.stop_count, queue.flow_limit.thresholds.resume_count
)

assert "qpid.flow_stop_count" not in queue.settings.arguments
assert queue.flow_limit.thresholds.stop_count == 80

# %% [markdown] id="lab-text"
# ## The lab
#
# Type a queue in any of the spellings, and options of `qpidd` if you like, and read what it comes to. Try the
# refusals of this chapter, and see which hint each of them gets.

# %% id="lab"
qf.config_lab("orders --max-queue-count=100 --flow-stop-count=5")

# %% id="lab-words"
lone_stop = qf.config_run("orders --max-queue-count=100 --flow-stop-count=5")
print(lone_stop.refusal)

assert "542" in lone_stop.refusal

# %% [markdown] id="real-text"
# ## What the real broker did
#
# The percentages of the manual's example, on the real broker: OFF at 9,000 bytes, ON above; still ON at
# 7,500, OFF below.

# %% id="real"
recorded = qf.beside("fc-ratio-90-75-size", bytes="queues.q.bytes", ON="queues.q.flow", held="held.p")

assert recorded.agrees
recorded

# %% [markdown] id="real-starts-text"
# And every start of a broker that was recorded, with options that are accepted and refused, tried on the
# engine, word for word:

# %% id="real-starts"
starts = list(qf.conformance.check_file(qf.kit_path("data") / "recordings" / "scenarios" / "startup.json"))
print(f"{sum(verdict.agrees for verdict in starts)} of {len(starts)} recorded starts agree")

assert all(verdict.agrees for verdict in starts)

# %% [markdown] id="compare-text"
# ## Your predictions

# %% id="compare" jupyter={"source_hidden": true}
predictions.compare(
    stop=levels[90].stop_count, resume=levels[90].resume_count, ring="yes" if ring.flowStopped else "no"
)

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - Defaults: stop 80 percent rounded half up, resume 70 percent cut off, each unit with a limit. *(FC-02,
#   FC-04)*
# - If you set a stop threshold, set its resume threshold too; the default takes part in the check. *(FC-07)*
# - 0 for both percentages switches the defaults off; 0 for both stops switches one queue off. *(FC-08,
#   FC-10)*
# - Ring queues never have flow control; `ring_strict` is not a ring any more. *(FC-03, LP-04)*
# - Declaring a queue again does not change it. *(FC-12, CF-04)*
#
# ## Links on
#
# - In code: `qflow/broker/flow_limit.py` computes the levels, `qflow/configuration/` reads and explains them.
# - In a terminal: `qflow config add queue NAME …`.

# %% [markdown] id="exercises"
# ## Exercises
#
# [Exercises 7 · Configuration](../exercises/07-configuration.ipynb), 30 minutes: the default thresholds of
# a queue, a declaration in `queue.declare` and in `qpid-config`, which declarations are refused, and how
# flow control is switched off. The next chapter is [8 · Several queues](08-several-queues.ipynb).
