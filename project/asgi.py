"""The ASGI application that gunicorn serves: `gunicorn -c project/gunicorn.py`."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

from project.serving.redirects import application as application
