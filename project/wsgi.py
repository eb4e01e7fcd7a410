"""The WSGI application that gunicorn serves: `gunicorn -c project/gunicorn.py`."""

import os
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
_django = get_wsgi_application()

from django.conf import settings  # noqa: E402

from project.redirects import Redirects  # noqa: E402 - which imports the model
from shorturl import visits  # noqa: E402

if settings.SHORTURL_VISITS:
    visits.families_of("Mozilla/5.0")  # what it loads, all workers then share
application: Any = Redirects(_django)
if settings.LOG_FORMAT == "json":
    from project.request_id import WithRequestId

    application = WithRequestId(application)
if settings.SHORTURL_METRICS_TOKEN:
    from project import metrics

    metrics.install()
    application = metrics.Counted(application)
