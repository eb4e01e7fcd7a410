"""The JSON API, with its OpenAPI description at /api/openapi.json and its page at /api/docs."""

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
`create`, `read`, `edit` and `delete`; a call outside of them is a 403. You see and change your own
short URLs only, or those of the token's user: any other one is a 404, as if there were none. Staff
who may do the same in the admin, and tokens without a user, have all. Where the service is set so
(a local run is), anybody may create (`SHORTURL_PUBLIC_CREATE`), or read one short URL, as on its
page (`SHORTURL_PUBLIC_STATS`). An unknown or revoked token is refused everywhere.

**Repeated requests.** Every POST takes an `Idempotency-Key`: sent again with the same key, a
request is carried out once and gets the same answer; after an error, it is tried anew. Keys are
each token's and each account's own; without either, all callers of one network share theirs, so
draw them at random.

**Errors** are JSON, always of the same shape: `detail` is a sentence for people, and `errors`,
where an input is invalid, names each `field`, with a `code` for programs and a `message`.
A 503 says in `Retry-After` how many seconds to wait.
"""


class Docs(Swagger):
    """Swagger UI, from ninja's own static files, and dark where that is preferred."""

    template = "shorturl/api_docs.html"

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        """Return the page, under a policy that allows images inside the style sheet.

        Swagger UI has its icons there, as data: URLs, and an image can do no more than be seen.
        """
        allow_icons: Any = csp_update({"img-src": ["data:"]})
        response: HttpResponse = allow_icons(super().render_page)(request, api, **kwargs)
        return response


class Api(NinjaAPI):
    """An API that answers every path, every method and every mistake in JSON."""

    @property
    def urls(self) -> tuple[list[URLResolver | URLPattern], str, str]:
        patterns, app_name, namespace = super().urls
        patterns.append(re_path("", nothing))
        for pattern in patterns:
            assert pattern.callback is not None
            pattern.callback = error_responses.always_json(idempotent(pattern.callback))
        return patterns, app_name, namespace

    def get_openapi_schema(self, *args: Any, **kwargs: Any) -> OpenAPISchema:
        """Return the description, in which every POST has the Idempotency-Key."""
        schema = super().get_openapi_schema(*args, **kwargs)
        for path in schema["paths"].values():
            if operation := path.get("post"):
                operation["parameters"] = [*operation.get("parameters", []), PARAMETER]
        return schema


def nothing(request: HttpRequest) -> HttpResponse:
    """Raise Http404, for every path under /api/ that is no operation."""
    raise Http404


api = Api(
    title="URL shortener",
    version="1",
    description=DESCRIPTION,
    urls_namespace="api",
    # What an operation gets that does not say for itself who may call it.
    auth=[access.Token("edit"), access.Login()],
    parser=JsonParser(),
    docs=Docs(),
    docs_decorator=require_safe,
)
for kind in (Exception, Http404, HttpError, ValidationError):
    api.add_exception_handler(kind, error_responses.answer)
api.add_router("", bulk_links.router)  # first: /links/bulk is no key
api.add_router("", links.router)
api.add_router("", link_visits.router)
