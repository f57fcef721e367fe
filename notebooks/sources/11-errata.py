# %% [markdown] id="title"
# # 11 · Errata: find the mistakes in the manual
#
# *40 minutes. Chapters 1 to 8 help. Run the cells from top to bottom with Shift+Enter.*
#
# At the end of this chapter you can
#
# - read a manual as a list of claims, and turn each claim into a check;
# - name 31 places where the documents about flow control and message groups contradict each other, the source
#   or the running broker, and decide between them;
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
# | ticket | QPID-2935, where the feature was requested, proposed and built | 2010–2011 |
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
# Reading carefully finds contradictions *inside* a text. It does not judge the sentences. So each sentence
# below has an experiment that tries it on the engine. The engine agrees with recordings of the real broker,
# which is why it may be the judge. One sentence as an example, without the game:

# %% id="naive"
sentence = qf.teaching.errata("states")[0]
print(f"{sentence.document}: {sentence.sentence}")
for step in sentence.observe():
    print(f"  {step.tried}: {step.seen}")

# %% id="naive-check" jupyter={"source_hidden": true}
assert sentence.is_checked and not sentence.is_wrong

# %% [markdown] id="states-text"
# ## The game
#
# Six pages, each with sentences from these documents, in short. Some are wrong or leave something out, some
# are true. Read a page, and mark each sentence that you think is wrong. Then let the engine try them all: it
# shows the outcomes, and counts. A true sentence that you marked costs two points, a mistake that you found
# brings one.
#
# ### On and off

# %% id="states"
qf.errata_game("states")

# %% [markdown] id="states-after-text"
# The sentence of the question is the draft's, and contradicts the next one ("greater than 900 … ON"). It
# should say *less* than or equal, and it is silent about the beginning. The ticket proposes "at and above"
# and defines the way down twice, "at or below" and "falls below". What shipped is: above, and below.
#
# ### Names and units

# %% id="names"
qf.errata_game("names")

# %% [markdown] id="configuration-text"
# ### Configuration
#
# Here are the ones that hurt: a legal number is refused, a switch is only half a switch, a policy's name is
# misleading.

# %% id="configuration"
qf.errata_game("configuration")

# %% [markdown] id="clients-text"
# ### Producers and full queues

# %% id="clients"
qf.errata_game("clients")

# %% [markdown] id="groups-text"
# ### Groups

# %% id="groups"
qf.errata_game("groups")

# %% [markdown] id="history-text"
# ### History and neighbours
#
# The Java broker had flow control first; chapter 10 tells the story. One claim of the 31 no machine can
# check: in which release it came.

# %% id="history"
qf.errata_game("history")

# %% [markdown] id="all-text"
# ## All of them
#
# Every row below was checked by the cell that printed it. Look here when you have played all six pages.

# %% id="all"
verdicts = qf.errata_table()

verdicts

# %% id="all-check" jupyter={"source_hidden": true}
assert len(verdicts) == 31 and all(verdicts.column("checked"))

# %% [markdown] id="surprise-text"
# ## The surprise
#
# The worst mistakes are not the wrong sentences. X-01 is plainly wrong, and did no harm to any reader,
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

ring

# %% id="real-check" jupyter={"source_hidden": true}
assert ring.agrees

# %% [markdown] id="real-strict-text"
# A policy of old times: accepted, and then it refuses like any other.

# %% id="real-strict"
strict = qf.beside("lim-strict-ring", depth="queues.q.depth", error="errors.p")

strict

# %% id="real-strict-check" jupyter={"source_hidden": true}
assert strict.agrees

# %% [markdown] id="real-leave-text"
# And a held message that leaves a queue which stays ON: steps 7 and 8.

# %% id="real-leave"
leave = qf.beside(
    "fc-leave-accept", (1, 5, 6, 7, 8, 9), depth="queues.q.depth", ON="queues.q.flow", held="held.p"
)

leave

# %% id="real-leave-check" jupyter={"source_hidden": true}
assert leave.agrees

# %% [markdown] id="hangs-text"
# ## What nobody can record
#
# Some legal requests end the real broker, or hang it, so that no recording says what comes next: a selector
# that divides an integer by 0, or looks at `amqp.message_id`; a ring that receives its dropped messages
# again, through its own alternate exchange; a durable queue that goes with the accept of its last message.
# No document warns of them. The engine refuses them and says why. One declare is enough: a durable queue
# that destroys itself when it is full.

# %% id="hangs"
session = qf.Broker().session("one client")
self_destruct = {"qpid.policy_type": "self-destruct", "qpid.max_count": 1}
session.queue_declare("orders", self_destruct, durable=True)
session.message_transfer(qf.Message(100, "orders"))
try:
    session.message_transfer(qf.Message(100, "orders"))
except qf.AmqpException as error:
    print(error)

# %% id="hangs-check" jupyter={"source_hidden": true}
assert "real broker hangs" in str(session.error)

# %% [markdown] id="compare-text"
# ## Your predictions
#
# True as written: 1 (X-01 is the draft's mistake, the manual has it right), and 6. Number 2 is X-05, 3 is
# X-30, 4 is X-11, 5 is X-13.

# %% id="compare" jupyter={"source_hidden": true}
predictions.compare(true=2, refused="stop must not be below resume")

# %% [markdown] id="keypoints"
# ## Keypoints
#
# - A manual is a list of claims. Write each as a check, and run it again when the program changes.
# - Where documents and broker disagree, the recording decides.
# - The omissions of a text hurt more than its mistakes.
#
# ## Where next
#
# - Why some of these differ between proposal and program:
#   [10 · How it was designed](10-how-it-was-designed.ipynb).
# - `qflow rules` lists the rules themselves, and the tests for each.
