"""What every test shares."""

import os
import tempfile

from hypothesis import settings

# An agent without a model has none here, whatever the machine is set to.
os.environ.pop("HOOKLINE_MODEL", None)

# Nothing is written to the directories of whoever runs the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="hookline-tests-")

# How fast the machine is must not decide whether a test passes. Where changes are admitted the examples are the same
# every time, so that a change is judged by what it does; everywhere else new ones are looked for.
settings.register_profile("hookline", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("hookline")
