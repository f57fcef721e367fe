"""The same engine over a fleet's recorded logs: in memory, on Spark, and as a stream.

A queue's history is a sequential state machine, so one component's events are never split among workers;
what is independent of one another (:mod:`qflow.spark.touches`) is.  Everything that decides is plain
Python that runs without Spark (:mod:`qflow.spark.lake_audit`); Spark moves rows to it and results away.

=============  ========================================================================================
module         what it does
=============  ========================================================================================
``ingest``     client logs and traces to rows; what makes no sense goes to the quarantine, with the reason
``topology``   who touches what; connected components
``layout``     a lake of files, one component's rows together and in order, so that replay needs no shuffle
``audit``      the engine over each component: what was ON, held, blocked, owned, and what was found
``whatif``     the workload behind a component's log, simulated under other settings
``sweep``      components by settings; may be killed and goes on
``advice``     thresholds that would have been safe, with the evidence
``stream``     the audit as a stream, its state in a checkpointed store
``synth``      a plausible fleet of any size
``steps``      long work in parts that are kept, which goes on where it was
``bench``      what Spark costs beside the plain loop, what a second core gains
=============  ========================================================================================

``import qflow.spark`` loads neither pyspark nor pyarrow; the modules do when they are used.
"""
