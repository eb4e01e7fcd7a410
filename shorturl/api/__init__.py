"""The JSON API, with its OpenAPI description at /api/openapi.json and its docs at /api/docs."""

from typing import Any

from csp.decorators import csp_update
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, re_path
from django.views.decorators.http import require_safe
from ninja import NinjaAPI, Swagger
from ninja.errors import HttpError, ValidationError
from ninja.openapi.schema import OpenAPISchema

from shorturl.api import access, bulk_links, error_responses, link_visits, links
from shorturl.api.idempotency_key import PARAMETER, idempotent
from shorturl.api.json_body import JsonParser

DESCRIPTION = """
Create and manage short URLs from programs.

**Permissions.** Send a token as `Authorization: Bearer <token>`, or log in. A token has scopes:
`create`, `read`, `edit` and `delete`; a call outside of them is a 403. You see and change only your
own short URLs, or those of the token's user; any other one is a 404. Tokens without a user see and
change all short URLs, and so do staff with the permission in the admin. With
`SHORTURL_PUBLIC_CREATE=on` anybody may create, and with `SHORTURL_PUBLIC_STATS=on` anybody may read
a short URL. Both are on in a local run. An unknown or revoked token is refused everywhere.

**Repeated requests.** Every POST takes an `Idempotency-Key`. A request that is sent again with the
same key is carried out once and gets the same answer. After an error it is carried out again. Each
token and each account has its own keys. All other callers of one network share their keys, so draw
keys at random.

**Errors** are JSON, always of the same shape. `detail` is a sentence for people. Where an input is
invalid, `errors` names each `field`, with a `code` for programs and a `message`. `Retry-After` of a
503 says how many seconds to wait. With `X-Processed: no` the request had no effect.
"""


class Docs(Swagger):
    template = "shorturl/api_docs.html"

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        """Allow data: URLs for images, which Swagger UI has as icons; an image cannot run code."""
        allow_icons: Any = csp_update({"img-src": ["data:"]})
        response: HttpResponse = allow_icons(super().render_page)(request, api, **kwargs)
        return response


class Api(NinjaAPI):
    """An API that answers every path, every method and every error in JSON."""

    @property
    def urls(self) -> tuple[list[URLResolver | URLPattern], str, str]:
        patterns, app_name, namespace = super().urls
        patterns.append(re_path("", nothing))
        for pattern in patterns:
            assert pattern.callback is not None
            pattern.callback = error_responses.always_json(idempotent(pattern.callback))
        return patterns, app_name, namespace

    def get_openapi_schema(self, *args: Any, **kwargs: Any) -> OpenAPISchema:
        schema = super().get_openapi_schema(*args, **kwargs)
        # The documents begin with one short URL, and the router with `bulk`.
        schema["paths"] = dict(sorted(schema["paths"].items(), key=lambda each: "bulk" in each[0]))
        for path in schema["paths"].values():
            if operation := path.get("post"):
                operation["parameters"] = [*operation.get("parameters", []), PARAMETER]
        return schema


def nothing(request: HttpRequest) -> HttpResponse:
    raise Http404


api = Api(
    title="URL shortener",
    version="1",
    description=DESCRIPTION,
    urls_namespace="api",
    # The default for operations without `auth`.
    auth=[access.Token("edit"), access.Login()],
    parser=JsonParser(),
    docs=Docs(),
    docs_decorator=require_safe,
)
for kind in (Exception, Http404, HttpError, ValidationError):
    api.add_exception_handler(kind, error_responses.answer)
api.add_router("", bulk_links.router)  # first, or `bulk` in /links/bulk would be a key
api.add_router("", links.router)
api.add_router("", link_visits.router)
