"""The explorer's clock, which goes on while the code under test has frozen its own."""

import functools
import time

# freezegun replaces time.monotonic in every module that has it, and leaves another object alone.
monotonic = functools.partial(time.monotonic)
