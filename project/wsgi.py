"""The plain WSGI application, for any server: `gunicorn project.wsgi`.

A redirect is an ordinary view of it. `make run` and the image serve project/asgi.py, which answers
redirects on the event loop and asks this application for everything else.
"""

import os
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
application: Any = get_wsgi_application()

from django.conf import settings  # noqa: E402

from shorturl.visits import classification  # noqa: E402 - which imports the model

if settings.SHORTURL_VISITS:
    # This loads its data before the workers are forked.
    classification.classify_user_agent("Mozilla/5.0")
