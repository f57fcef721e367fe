"""Spark: run the same engine over the recorded logs of a fleet, in memory, on Spark, and as a stream.

A *fleet* is a set of brokers with many queues.  A queue's history is sequential, so all events of a
*component* (queues and clients that can influence one another, :func:`components_of`) are processed by one
worker; different components are processed by different workers.  The audit itself is plain Python, which also
runs without Spark (:func:`audit_in_memory`); Spark distributes the rows and collects the results.

``import qflow.spark`` imports neither pyspark nor pyarrow; the modules import them when they are used.

>>> from qflow.spark import AS_RECORDED
>>> AS_RECORDED.name
'as recorded'
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.logs.components import audit_in_memory as audit_in_memory
    from qflow.logs.components import components_of as components_of
    from qflow.logs.components import lake_of as lake_of
    from qflow.logs.components import read_components as read_components
    from qflow.logs.components import result_hash as result_hash
    from qflow.logs.components import touches_of as touches_of
    from qflow.spark import figures as figures
    from qflow.spark import questions as questions
    from qflow.spark import stream as stream
    from qflow.spark.events_table import EventsTable as EventsTable
    from qflow.spark.events_table import make_lake_of_table as make_lake_of_table
    from qflow.spark.figures import report_day as report_day
    from qflow.spark.figures import report_on as report_on
    from qflow.spark.ingest import make_lake as make_lake
    from qflow.spark.lake import bound as bound
    from qflow.spark.lake import read_lake as read_lake
    from qflow.spark.lake import speed_up as speed_up
    from qflow.spark.lake_audit import audit as audit
    from qflow.spark.lake_audit import audit_cut as audit_cut
    from qflow.spark.lake_audit import audit_from_checkpoint as audit_from_checkpoint
    from qflow.spark.lake_audit import audit_to as audit_to
    from qflow.spark.lake_audit import rest_places as rest_places
    from qflow.spark.lake_audit import take_checkpoints as take_checkpoints
    from qflow.spark.spark_session import session as session
    from qflow.spark.stream import audit_events as audit_events
    from qflow.spark.sweep import AS_RECORDED as AS_RECORDED
    from qflow.spark.sweep import FleetSettings as FleetSettings
    from qflow.spark.sweep import advise as advise
    from qflow.spark.sweep import component_log as component_log
    from qflow.spark.sweep import what_if as what_if
    from qflow.spark.workers import watch_cells as watch_cells

open_room(__name__)
