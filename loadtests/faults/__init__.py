"""Fault injection while users follow and create short URLs.

    table.py            the faults: what is done, what must hold, and the bound
    service_faults.py   faults of the service's processes, and clients that send or read little
    postgres_faults.py  faults of PostgreSQL and the network before it, roll-ups killed midway
    open_loop.py        more requests than the service can answer
    places.py           where the faults happen: services, databases, proxies
    traffic.py          the users at work meanwhile, and their ledger
    experiment.py       one fault under load, its figures and bounds, and its report

After every fault the ledger has to agree with the database: acknowledged ≤ hits ≤ sent for every
key, and every acknowledged link exists.
"""
