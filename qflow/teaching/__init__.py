"""Teaching: predictions, exercises and their checks, and the clients that chapters use.

>>> from qflow.broker import Broker
>>> from qflow.teaching import Reader, send
>>> broker = Broker()
>>> producer = broker.session("producer")
>>> producer.queue_declare("orders")
>>> transfers = send(producer, "orders", "a b c")
>>> Reader(broker, "consumer", "orders", prefetch=2).got
['a', 'b']
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.teaching.challenges import challenge as challenge
    from qflow.teaching.challenges import challenges as challenges
    from qflow.teaching.changed import changed_engine as changed_engine
    from qflow.teaching.checking import check as check
    from qflow.teaching.checking import show_progress as show_progress
    from qflow.teaching.errata import errata as errata
    from qflow.teaching.errata import errata_table as errata_table
    from qflow.teaching.errata_widget import errata_game as errata_game
    from qflow.teaching.hints import hint as hint
    from qflow.teaching.predictions import Predictions as Predictions
    from qflow.teaching.recorded import beside as beside
    from qflow.teaching.recorded import scenarios as scenarios
    from qflow.teaching.trial import Diary as Diary
    from qflow.teaching.trial import Reader as Reader
    from qflow.teaching.trial import send as send

open_room(__name__)
