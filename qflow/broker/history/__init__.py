"""What was proposed, tried or built before and beside what shipped (rules.md#alt-design-alternatives).

Each alternative plugs into the same engine: choose one with ``BrokerOptions(flow_control=…)``, or
for one queue with the declare argument ``qflow.flow_control``, and run the same commands.
"""
