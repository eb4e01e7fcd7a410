"""django-hitcount: two requests of one visitor, who is to be counted once."""

from django.contrib.auth.models import AnonymousUser
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
from hitcount.models import Hit, HitCount
from hitcount.views import HitCountMixin

from .finding import Finding

KEY = "found0123456789abcdef0123456789a"


def no_hits() -> None:
    HitCount.objects.all().delete()
    HitCount.objects.create(content_type=ContentType.objects.get_for_model(HitCount), object_pk=1)


def visit() -> None:
    request = HttpRequest()
    request.META["REMOTE_ADDR"] = "192.0.2.1"
    request.session, request.user = SessionStore(KEY), AnonymousUser()
    HitCountMixin.hit_count(request, HitCount.objects.get())


def counted_once(outcomes: object) -> str:
    hits = Hit.objects.count()
    return "" if hits == 1 else f"{hits} hits"


FINDING = Finding(
    package="django-hitcount",
    version="1.3.5",
    operation="`HitCountMixin.hit_count()`, twice in one session",
    breaks=True,
    says="Both look for an earlier hit of the session before either has made one. No count is "
    "lost: the number is added to in one UPDATE.",
    setup=no_hits,
    processes=[visit, visit],
    invariant=counted_once,
)
