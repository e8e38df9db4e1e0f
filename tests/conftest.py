"""What every test shares."""

from hypothesis import settings

# How fast the machine is must not decide whether a test passes.
settings.register_profile("hookline", deadline=None)
settings.load_profile("hookline")
