"""Load tests: the races against the running service, over HTTP alone.

Begin with lost_update.py, one of seven scripts for Locust, and with ledger.py.
"""
