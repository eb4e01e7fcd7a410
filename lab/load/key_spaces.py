"""Key spaces: each load run has its own, so that it disturbs neither another run nor the service.

A key space is a name such as lab-x7k2m, which a load run chooses. Its keys begin with `lab-x7k2m-`,
as no random key of the service does. Its targets begin with `https://lab-x7k2m.invalid/`, a host
that cannot exist (RFC 2606). The target decides which key space a link belongs to, because some
strategies make keys without the prefix.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from django.db.models.functions import Now

from shorturl.links import keys
from shorturl.models import IdempotencyRecord, QuotaUsage, ShortUrl, ShortUrlQuerySet
from shorturl.strategies.exhibits.models import erase

NAME = r"lab-[a-z0-9]{5}"  # lower case, as in the name of a host
DEFAULT_KEY_LENGTH = 3
MAX_AGE = timedelta(hours=1)  # a load run takes minutes; what is older was left by a killed run


@dataclass(frozen=True)
class KeySpace:
    """The links, the idempotency records and the quotas of one load run."""

    name: str

    @property
    def target_prefix(self) -> str:
        """The prefix of every target URL of this load run."""
        return f"https://{self.name}.invalid/"

    @property
    def links(self) -> ShortUrlQuerySet:
        return ShortUrl.objects.filter(target_url__startswith=self.target_prefix)

    def draw_keys(self, prefix: str = "", length: int = DEFAULT_KEY_LENGTH) -> Iterator[str]:
        """Yield candidate keys for one create: a prefix and at first `length` random characters."""
        for key in keys.candidates(length):
            yield f"{self.name}-{prefix}{key}"

    def remove_rows(self) -> int:
        """Remove the rows of this load run, and old links of others; return how many links."""
        IdempotencyRecord.objects.filter(caller=self.name).delete()
        QuotaUsage.objects.filter(spender__startswith=f"{self.name} ").delete()
        of_load_runs = ShortUrl.objects.filter(target_url__regex=rf"^https://{NAME}\.invalid/")
        old_links = of_load_runs.filter(created_at__lt=Now() - MAX_AGE)
        return erase(self.links) + erase(old_links)
