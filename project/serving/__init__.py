"""How requests are answered: redirects on gunicorn's event loop, everything else by Django."""
