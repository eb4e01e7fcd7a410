"""Fault injection while people follow and create short URLs: `python -m loadtests.faults`."""

import locust  # noqa: F401 - patches sockets and threads, and has to come before their users
