"""The models: short URLs, counts, records of requests, API tokens, banned domains, and events."""

from shorturl.models.api_token import NAME_CONSTRAINT as NAME_CONSTRAINT
from shorturl.models.api_token import USER_CONSTRAINT as USER_CONSTRAINT
from shorturl.models.api_token import ApiToken as ApiToken
from shorturl.models.events import LinkEvent as LinkEvent
from shorturl.models.events import Subscription as Subscription
from shorturl.models.hit_counts import Counted as Counted
from shorturl.models.hit_counts import RecentVisits as RecentVisits
from shorturl.models.hit_counts import RecordedVisits as RecordedVisits
from shorturl.models.hit_counts import Visit as Visit
from shorturl.models.hit_counts import VisitCount as VisitCount
from shorturl.models.request_records import IDEMPOTENCY_KEY_MAX_LENGTH as IDEMPOTENCY_KEY_MAX_LENGTH
from shorturl.models.request_records import IdempotencyRecord as IdempotencyRecord
from shorturl.models.request_records import QuotaUsage as QuotaUsage
from shorturl.models.short_url import CLOCK as CLOCK
from shorturl.models.short_url import EXPIRY_UNTOLD as EXPIRY_UNTOLD
from shorturl.models.short_url import LIMIT_CONSTRAINT as LIMIT_CONSTRAINT
from shorturl.models.short_url import LIVE as LIVE
from shorturl.models.short_url import OWNER_CONSTRAINT as OWNER_CONSTRAINT
from shorturl.models.short_url import BannedDomain as BannedDomain
from shorturl.models.short_url import LinkState as LinkState
from shorturl.models.short_url import ShortUrl as ShortUrl
from shorturl.models.short_url import ShortUrlQuerySet as ShortUrlQuerySet
