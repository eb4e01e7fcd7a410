"""The Content-Security-Policy header, built once and not for every response."""

from collections.abc import Callable

from csp.constants import HEADER
from csp.middleware import CSPMiddleware
from csp.utils import build_policy
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase


class SecurityPolicyMiddleware(CSPMiddleware):
    """django-csp's, which spends a sixth of a redirect's processor time on the same header.

    Where a view has a policy of its own, by a decorator or a nonce, django-csp builds the header.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        super().__init__(get_response)
        self.policy = build_policy()

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """Return `response` with the header, unless it has one."""
        special = hasattr(request, "_csp_nonce") or any(
            name.startswith("_csp_")
            for name in vars(response)  # where csp.decorators note it
        )
        if special or settings.DEBUG:  # whose error pages are exempt
            return super().process_response(request, response)
        response.setdefault(HEADER, self.policy)
        return response
