"""How requests are answered: redirects on gunicorn's event loop, everything else by Django.

connection.py   a session of PostgreSQL whose statements wait on the event loop
hit_counter.py  hits that wait while a statement is under way, counted by the next one
redirects.py    the ASGI application: it counts a hit and answers it, or passes the request on
bridge.py       the way to Django's threads
"""
