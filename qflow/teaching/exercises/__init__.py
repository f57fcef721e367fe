"""The exercises: what each asks, what the engine answers, and how people get it wrong."""
