"""The tables: short URLs, what is counted of them, what is kept of requests, and tokens."""

from shorturl.models.api_token import ApiToken
from shorturl.models.hit_counts import PartialCount, VisitCount
from shorturl.models.request_records import (
    IDEMPOTENCY_KEY_MAX_LENGTH,
    KeptAnswer,
    ReuseClaim,
    Spending,
)
from shorturl.models.short_url import (
    CLOCK,
    LIMIT_CONSTRAINT,
    OWNER_CONSTRAINT,
    LinkState,
    ShortUrl,
    ShortUrlQuerySet,
)

__all__ = [
    "CLOCK",
    "IDEMPOTENCY_KEY_MAX_LENGTH",
    "LIMIT_CONSTRAINT",
    "OWNER_CONSTRAINT",
    "ApiToken",
    "KeptAnswer",
    "LinkState",
    "PartialCount",
    "ReuseClaim",
    "ShortUrl",
    "ShortUrlQuerySet",
    "Spending",
    "VisitCount",
]
