"""The domains that no link may lead to."""

from django.db import models
from django.db.models.functions import Now

from shorturl.links.validators import HOST_MAX_LENGTH


class BannedDomain(models.Model):
    """A domain to which, with its subdomains, no redirect leads; `manage.py ban` adds it."""

    domain = models.CharField(max_length=HOST_MAX_LENGTH, primary_key=True)  # in ASCII
    banned_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.domain
