"""qflow: a message broker you can hold in your hand.

A small, exact, deterministic engine that models Apache Qpid's C++ broker: what a queue does when producers
are faster than consumers (producer flow control), step by step, so that every step can be watched, rewound,
questioned and replayed.

``import qflow as qf`` is all that a notebook needs.  It loads the standard library only; each name below is
loaded when it is first used.

===================  =====================================================================================
the engine           ``Broker``, ``BrokerOptions``, ``Message``, ``statistics``; it refuses with
                     ``AmqpException`` or ``StartupError``
your own clients     ``serve``: the engine behind a port, for AMQP 1.0 clients in any language;
                     ``client_table``: client libraries, and whether they stop when the broker does;
                     ``check_client``: how your client reacts; ``recorder``: a client log of your
                     program's connections
runs                 ``Workload``, ``Producer``, ``Consumer``, ``simulate``, ``Run``, ``WorkloadError``
traces               ``record``, ``trace_of``, ``Trace``, ``Timeline``, ``read_trace``, ``write_trace``,
                     ``explain`` (why?)
logs                 client logs: ``ClientLog``, ``LogError``, ``replay``, ``audit``; the broker's own log:
                     ``BrokerLog``, ``broker_log_chart``
what if, and what    ``predict``, ``Settings``; ``recommend``, ``frontier``, ``explore``
is safe
labs                 ``flow_lab``, ``bytes_lab``, ``completion_lab``, ``capacity_lab``, ``group_lab``,
                     ``config_lab``, ``fanout_lab``, ``policy_lab``, ``history_lab``, ``state_space_lab``;
                     ``recorded_lab`` for a recording, ``trace_lab`` for a trace file
the same as          ``flow_run``, ``bytes_run``, ``completion_run``, ``capacity_run``, ``group_run``,
pictures             ``config_run``, ``fanout_run``, ``policy_run``, ``history_run``, ``state_space_run``;
                     ``recorded_picture``, ``trace_picture``, and ``picture_of`` for any run
charts               ``depth_chart``, ``bytes_chart``, ``held_chart``, ``latency_chart``, ``ownership_chart``;
                     ``save_html``
chapters             ``Predictions``, ``check``, ``hint``, ``show_progress``; ``challenge``;
                     ``errata_game``, ``errata_table``; ``send``, ``Reader``, ``Diary``, ``Table``;
                     recordings: ``scenarios``, ``beside``, ``kit_path``
errors               ``QflowError``, the base class of all errors of qflow, such as ``RefusalError``
subpackages, for     ``broker``, ``messaging`` (the client API of ``qpid.messaging``), ``configuration``,
everything else      ``workload``, ``trace``, ``logs``, ``prediction``, ``design``, ``labs``, ``live``,
                     ``teaching``, ``conformance``, ``spark``
===================  =====================================================================================

>>> import qflow as qf
>>> broker = qf.Broker()
>>> session = broker.session("shop")
>>> session.queue_declare("orders", {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1})
>>> for _ in range(3):
...     transfer = session.message_transfer(qf.Message(100, routing_key="orders"))
>>> transfer.is_complete, broker.queue("orders").statistics().flowStopped
(False, True)
"""

import sys

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow import broker as broker
    from qflow import configuration as configuration
    from qflow import conformance as conformance
    from qflow import design as design
    from qflow import labs as labs
    from qflow import live as live
    from qflow import logs as logs
    from qflow import messaging as messaging
    from qflow import prediction as prediction
    from qflow import spark as spark
    from qflow import teaching as teaching
    from qflow import trace as trace
    from qflow import workload as workload
    from qflow.broker import AmqpException as AmqpException
    from qflow.broker import Broker as Broker
    from qflow.broker import BrokerOptions as BrokerOptions
    from qflow.broker import Message as Message
    from qflow.broker import StartupError as StartupError
    from qflow.design import explore as explore
    from qflow.design import frontier as frontier
    from qflow.design import recommend as recommend
    from qflow.displays import statistics as statistics
    from qflow.kit import RefusalError as RefusalError
    from qflow.kit import kit_path as kit_path
    from qflow.labs import broker_log_chart as broker_log_chart
    from qflow.labs import bytes_chart as bytes_chart
    from qflow.labs import bytes_lab as bytes_lab
    from qflow.labs import bytes_run as bytes_run
    from qflow.labs import capacity_lab as capacity_lab
    from qflow.labs import capacity_run as capacity_run
    from qflow.labs import completion_lab as completion_lab
    from qflow.labs import completion_run as completion_run
    from qflow.labs import config_lab as config_lab
    from qflow.labs import config_run as config_run
    from qflow.labs import depth_chart as depth_chart
    from qflow.labs import fanout_lab as fanout_lab
    from qflow.labs import fanout_run as fanout_run
    from qflow.labs import flow_lab as flow_lab
    from qflow.labs import flow_run as flow_run
    from qflow.labs import group_lab as group_lab
    from qflow.labs import group_run as group_run
    from qflow.labs import held_chart as held_chart
    from qflow.labs import history_lab as history_lab
    from qflow.labs import history_run as history_run
    from qflow.labs import latency_chart as latency_chart
    from qflow.labs import ownership_chart as ownership_chart
    from qflow.labs import picture_of as picture_of
    from qflow.labs import policy_lab as policy_lab
    from qflow.labs import policy_run as policy_run
    from qflow.labs import recorded_lab as recorded_lab
    from qflow.labs import recorded_picture as recorded_picture
    from qflow.labs import save_html as save_html
    from qflow.labs import state_space_lab as state_space_lab
    from qflow.labs import state_space_run as state_space_run
    from qflow.labs import trace_lab as trace_lab
    from qflow.labs import trace_picture as trace_picture
    from qflow.live import check_client as check_client
    from qflow.live import client_table as client_table
    from qflow.live import recorder as recorder
    from qflow.live import serve as serve
    from qflow.logs import BrokerLog as BrokerLog
    from qflow.logs import ClientLog as ClientLog
    from qflow.logs import LogError as LogError
    from qflow.logs import audit as audit
    from qflow.logs import replay as replay
    from qflow.prediction import Settings as Settings
    from qflow.prediction import predict as predict
    from qflow.qflow_error import QflowError as QflowError
    from qflow.table import Table as Table
    from qflow.teaching import Diary as Diary
    from qflow.teaching import Predictions as Predictions
    from qflow.teaching import Reader as Reader
    from qflow.teaching import beside as beside
    from qflow.teaching import challenge as challenge
    from qflow.teaching import check as check
    from qflow.teaching import errata_game as errata_game
    from qflow.teaching import errata_table as errata_table
    from qflow.teaching import hint as hint
    from qflow.teaching import scenarios as scenarios
    from qflow.teaching import send as send
    from qflow.teaching import show_progress as show_progress
    from qflow.trace import Timeline as Timeline
    from qflow.trace import Trace as Trace
    from qflow.trace import explain as explain
    from qflow.trace import read_trace as read_trace
    from qflow.trace import record as record
    from qflow.trace import trace_of as trace_of
    from qflow.trace import write_trace as write_trace
    from qflow.workload import Consumer as Consumer
    from qflow.workload import Producer as Producer
    from qflow.workload import Run as Run
    from qflow.workload import Workload as Workload
    from qflow.workload import WorkloadError as WorkloadError
    from qflow.workload import simulate as simulate

__version__ = "0.1.0"

open_room(__name__)

if "IPython" in sys.modules:
    from qflow.displays import register

    register()
