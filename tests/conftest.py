"""No timed assertions: an example that takes long on a busy machine is no counterexample."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
