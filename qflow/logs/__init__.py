"""Client logs: what clients recorded, read, replayed through the engine, and audited."""
