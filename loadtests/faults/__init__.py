"""Fault injection while users follow and create short URLs.

    table.py        the faults: what is done, what must hold, and the bound
    service.py      faults of the service's processes
    postgres.py     faults of PostgreSQL, and roll-ups killed midway
    network.py      faults of the networks between clients, service and PostgreSQL
    clients.py      clients that send or read little, guess passwords, or are too many
    open_loop.py    more requests than the service can answer
    traffic.py      the users at work meanwhile, and their ledger
    experiment.py   one fault under load, its figures and bounds

After every fault the ledger has to agree with the database: acknowledged ≤ hits ≤ sent for every
key, and every acknowledged link exists.
"""
