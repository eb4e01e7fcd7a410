"""The WSGI application that gunicorn serves: `gunicorn -c project/gunicorn.py`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
_django = get_wsgi_application()

from project.redirects import Redirects  # noqa: E402 - which imports the model

application = Redirects(_django)
