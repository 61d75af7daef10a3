"""The shared classifier: one client, one breaker and one set of counters for every plugin that asks."""
