"""The header that is built once is the one that django-csp would build, or django-csp builds it."""

from collections.abc import Callable

import pytest
from csp import decorators
from csp.constants import NONCE
from csp.middleware import CSPMiddleware
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.test import RequestFactory
from pytest_django import Settings

from project.security_policy import SecurityPolicyMiddleware

HEADER = "Content-Security-Policy"
View = Callable[[HttpRequest], HttpResponseBase]


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("a page")


def missing(request: HttpRequest) -> HttpResponse:
    return HttpResponse("no page", status=404)


def nonce(request: HttpRequest) -> HttpResponse:
    request._csp_nonce = "0123456789"  # type: ignore[attr-defined]
    return HttpResponse("a page with a script")


def its_own(request: HttpRequest) -> HttpResponse:
    return HttpResponse("a page", headers={HEADER: "default-src 'self'"})


VIEWS = {
    "page": page,
    "missing": missing,
    "nonce": nonce,
    "its_own": its_own,
    "exempt": decorators.csp_exempt()(page),
    "update": decorators.csp_update({"img-src": ["data:"]})(page),
    "replace": decorators.csp_replace({"img-src": ["data:"]})(page),
    "other": decorators.csp({"default-src": ["'self'"]})(page),
}


def directives(middleware: type[CSPMiddleware], view: View) -> set[str]:
    response = middleware(view)(RequestFactory().get("/"))
    assert isinstance(response, HttpResponse)
    return set(response.get(HEADER, "").split("; "))


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("debug", [False, True])
def test_the_same_header(name: str, debug: bool, settings: Settings) -> None:
    settings.DEBUG = debug
    policy = {"default-src": ["'none'"], "img-src": ["'self'"], "script-src": ["'self'", NONCE]}
    settings.CONTENT_SECURITY_POLICY = {"DIRECTIVES": policy}
    view = VIEWS[name]
    assert directives(SecurityPolicyMiddleware, view) == directives(CSPMiddleware, view)
