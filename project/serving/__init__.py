"""Redirects on gunicorn's event loop, and the bridge to Django's threads for everything else."""
