"""Fault injection: what fails on purpose while users follow and create short URLs.

    python -m loadtests.faults

    table.py            the faults: what is done, what must hold, and the bound
    service_faults.py   faults of the service's processes
    postgres_faults.py  faults of PostgreSQL, and of the network before it
    client_faults.py    clients that send little or read nothing
    roll_up_faults.py   roll-ups that are killed midway
    open_loop.py        more requests than the service can answer
    environments.py     where the faults happen: services, databases, proxies
    traffic.py          the users at work meanwhile, and their ledger
    experiment.py       one fault under load
    program.py          one fault as a program of its own, and the exit codes
    outcome.py          the measured figures, their bounds, and what did not hold

After every fault the ledger has to agree with the database: acknowledged ≤ hits ≤ sent for every
key, and every link that was acknowledged is there.
"""
