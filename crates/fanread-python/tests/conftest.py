"""Settings of the tests: a fixed number of examples, none timed."""

from hypothesis import settings

settings.register_profile("check", deadline=None, max_examples=30, stateful_step_count=30, database=None)
settings.load_profile("check")
