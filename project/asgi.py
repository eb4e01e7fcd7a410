"""The ASGI application that gunicorn serves: `gunicorn -c project/gunicorn.py`."""

from project.serving.application import Service

application = Service()
