"""The plain WSGI application, for any server: `gunicorn project.wsgi`.

A redirect is an ordinary view of it. `make run` and the image serve project/asgi.py, which answers
redirects on the event loop and asks this application for everything else.
"""

import os
from typing import Any

from django.core.handlers.wsgi import WSGIRequest
from django.core.wsgi import get_wsgi_application


class Utf8Request(WSGIRequest):
    """Reads the query and forms as UTF-8, whatever charset the Content-Type names.

    Django would use any codec of Python's, also one such as base64, which decodes no text.
    """

    encoding = property(lambda request: None, lambda request, charset: None)


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
application: Any = get_wsgi_application()
application.request_class = Utf8Request

from django.conf import settings  # noqa: E402

from shorturl.visits import classification  # noqa: E402 - which imports the model

if settings.SHORTURL_VISITS:
    # This loads its data before the workers are forked.
    classification.classify_user_agent("Mozilla/5.0")
