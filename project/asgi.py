"""The ASGI application that gunicorn serves: `gunicorn -c project/gunicorn.py`."""

from project.wsgi import application as django  # which sets Django up

# isort: split
from project.serving.redirects import Redirects

application = Redirects(django)
