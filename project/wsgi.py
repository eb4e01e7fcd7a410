"""The WSGI application that gunicorn serves: `gunicorn -c project/gunicorn.py`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

application = get_wsgi_application()
