"""Settings of the whole suite: Hypothesis judges laws, never the speed of the machine."""

from hypothesis import HealthCheck, settings

settings.register_profile("laws", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=100)
settings.load_profile("laws")
