"""A lock that a solution beside this file imports."""

import threading

IMPORTED = threading.Lock()
