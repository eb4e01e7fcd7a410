"""Who may call an operation: a callable returns a true value to admit a request."""

from http import HTTPStatus

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from ninja.security import SessionAuth
from ninja.security.base import AuthBase
from ninja.utils import check_csrf

from shorturl.api.error_responses import ApiError, unauthorized
from shorturl.limits import owners, quotas
from shorturl.models import ApiToken


class Token(AuthBase):
    """Admits requests with a valid token that has the `scope`; refuses any other token."""

    openapi_type = "http"
    openapi_scheme = "bearer"
    openapi_description = (
        "A token, made at `/account`, in the admin or by `manage.py token create`."
    )

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.scope = scope

    def __call__(self, request: HttpRequest) -> ApiToken | None:
        header = request.headers.get("Authorization")
        if header is None:
            return None
        scheme, _, text = header.partition(" ")
        token = ApiToken.find_valid(text.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise unauthorized(
                "The Authorization header holds no valid token: write it as "
                "'Authorization: Bearer <token>', with a token that is not revoked."
            )
        require_scope(token, self.scope)
        return token


def require_scope(token: ApiToken, scope: str) -> None:
    if scope not in token.scopes:
        raise ApiError(HTTPStatus.FORBIDDEN, f"This token lacks the scope {scope!r}.")


class Login(SessionAuth):
    """Admits users who are logged in; unsafe methods also need the CSRF token."""

    openapi_description = "A login session. Send the CSRF token in `X-CSRFToken`, except with GET."

    def __call__(self, request: HttpRequest) -> User | None:
        if self.param_name not in request.COOKIES or not request.user.is_authenticated:
            return None
        if check_csrf(request):
            raise ApiError(
                HTTPStatus.FORBIDDEN,
                "The CSRF token is missing or wrong: send the csrftoken cookie's value in the "
                "X-CSRFToken header, or use a bearer token.",
            )
        return request.user


def anyone_where_creating_is_public(request: HttpRequest) -> bool:
    return bool(settings.SHORTURL_PUBLIC_CREATE)


def anyone_where_stats_are_public(request: HttpRequest) -> bool:
    return bool(settings.SHORTURL_PUBLIC_STATS)


def get_caller(request: HttpRequest) -> owners.Caller:
    """Return the token that ninja has admitted, or else the user of the request."""
    admitted = getattr(request, "auth", None)
    return admitted if isinstance(admitted, ApiToken) else request.user


def get_sender(request: HttpRequest) -> str:
    """Return as text who sends an Idempotency-Key: a token, an account or a network."""
    if token := Token("create")(request):
        return f"token {token.pk}"
    return quotas.spender_of(Login()(request) or AnonymousUser(), request)
