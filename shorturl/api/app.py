"""The API itself: its description, its pages, and what answers its errors."""

from typing import Any

from csp.decorators import csp_update
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from ninja import NinjaAPI, Swagger

from shorturl.api import access
from shorturl.api.error_responses import HANDLERS
from shorturl.api.json_body import JsonParser

DESCRIPTION = """
Create and manage short URLs from programs.

**Permissions.** Send a token as `Authorization: Bearer <token>`, or log in. A token has scopes:
`create`, `read`, `edit` and `delete`; a call outside of them is a 403. You see and change only your
own short URLs, or those of the token's user; any other short URL is a 404. Tokens without a user
see and change all short URLs, and so do staff with the permission in the admin. With
`SHORTURL_PUBLIC_CREATE=on` anybody may create, and with `SHORTURL_PUBLIC_STATS=on` anybody may read
a short URL. Both are on in a local run. An unknown or revoked token is refused everywhere.

**Repeated requests.** Both creates take an `Idempotency-Key`. A request that is sent again with the
same key is carried out once and gets the same answer. After an error, the next such request is
carried out. Each token and each account has its own keys. All other callers of one network share
their keys, so draw keys at random.

**Errors** are JSON, always of the same shape. `detail` is a sentence for people. Where an input is
invalid, `errors` names each `field`, with a `code` for programs and a `message`. `Retry-After` of a
429 or 503 says how many seconds to wait. A 429 also has `RateLimit-Policy` and `RateLimit`
(draft-ietf-httpapi-ratelimit-headers). After a 500 or 503, the request may have had an effect.
"""


class Docs(Swagger):
    template = "shorturl/api_docs.html"


# Swagger UI has icons in data: URLs. An image cannot run code.
allow_icons: Any = csp_update({"img-src": ["data:"]})
api = NinjaAPI(
    title="URL shortener",
    version="1",
    description=DESCRIPTION,
    urls_namespace="api",
    # The default for operations without `auth`.
    auth=[access.Token("edit"), access.Login()],
    parser=JsonParser(),
    docs=Docs(),
    docs_decorator=lambda view: csrf_exempt(require_safe(allow_icons(view))),
)
for error, handler in HANDLERS.items():
    api.add_exception_handler(error, handler)
