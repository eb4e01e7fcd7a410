"""Load tests: the races against the running service, over HTTP alone.

    lost_update.py       many users follow one link
    toctou.py            many users create in a small key space
    last_use.py          many users follow links that have a limit
    last_link.py         many users create for one spender with a quota
    same_target.py       many users request a link to the same target
    repeated_request.py  many users send the same request
    same_hour.py         many users make the first visits of an hour
    ledger.py            what clients were told, beside what the service has; with records.py
    key_space.py         the links of a run at the service's load endpoints
    races.py             every strategy, one after another, and a table of all: `make races`
    faults/              what is lost, and how long a request waits, when something breaks
    bench.py             the speed of the service, beside known programs
    servers.py           a service and a PostgreSQL for races, faults and bench

They know the service by HTTP only.
"""
