"""What goes in and what comes out, as JSON."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from shorturl import keys
from shorturl.models import ShortUrl
from shorturl.validators import (
    TARGET_URL_MAX_LENGTH,
    in_utc,
    validate_expiry,
    validate_foreign,
    validate_target_url,
)
from shorturl.views import address

# Links. A page of a hundred of the longest is some 250 kB of JSON.
PAGE_DEFAULT, PAGE_MAX = 50, 100

TARGET = "https://example.com/a/long/page"


def checked(validate: Callable[[Any, HttpRequest], object]) -> AfterValidator:
    """Return Pydantic's kind of validator for one of ours, which keeps its code and its words."""

    def check(value: Any, info: ValidationInfo) -> Any:
        try:
            validate(value, info.context["request"])  # type: ignore[index]  # ninja sees to it
        except ValidationError as error:
            # The words go in as a value: in a template, their braces would be placeholders.
            words = {"message": error.messages[0].removesuffix(".")}
            raise PydanticCustomError(error.code or "invalid", "{message}", words) from error
        return value

    return AfterValidator(check)


def check_target_url(target_url: str, request: HttpRequest) -> None:
    """Raise ValidationError unless a link may lead to `target_url`."""
    validate_target_url(target_url)
    validate_foreign(target_url, request.get_host(), settings.ALLOWED_HOSTS)


TargetUrl = Annotated[
    str,
    checked(check_target_url),
    Field(
        description=f"Where the short URL leads: http or https, at most {TARGET_URL_MAX_LENGTH:,} "
        "characters, and not an address of this service. It is kept as it was typed.",
        examples=[TARGET],
        json_schema_extra={
            "pattern": "^[Hh][Tt][Tt][Pp][Ss]?://.",
            "maxLength": TARGET_URL_MAX_LENGTH,
        },
    ),
]
CustomKey = Annotated[
    str,
    checked(lambda key, request: keys.validate_custom_key(key)),
    Field(json_schema_extra={"pattern": f"^{keys.CUSTOM_KEY.pattern}$"}),
]


MaxHits = Annotated[
    int,
    Field(ge=1, le=2**63 - 1, description="How often it leads there, then 410.", examples=[100]),
]
ExpiresAt = Annotated[
    AwareDatetime,
    checked(lambda expires_at, request: validate_expiry(expires_at)),
    AfterValidator(in_utc),
    Field(description="Until when it leads there, then 410.", examples=["2030-12-31T23:59:59Z"]),
]


class Change(BaseModel):
    """What is to be changed of a short URL."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"minProperties": 1})

    target_url: TargetUrl = ""  # which is left out, or valid
    max_hits: MaxHits | None = None
    expires_at: ExpiresAt | None = None

    @model_validator(mode="after")
    def something(self) -> Self:
        """Raise ValueError when there is nothing to change."""
        if not self.model_fields_set:
            names = ", ".join(type(self).model_fields)
            raise PydanticCustomError("nothing", "{message}", {"message": f"Send any of {names}"})
        return self


class NewLink(BaseModel):
    """What makes a short URL."""

    model_config = ConfigDict(extra="forbid")

    target_url: TargetUrl
    key: CustomKey | None = Field(
        None,
        description=f"A custom key: 1 to {keys.MAX_LENGTH} letters, digits, `-` and `_`. "
        "Without one, a random key is drawn.",
        examples=["my-page"],
    )
    max_hits: MaxHits | None = None
    expires_at: ExpiresAt | None = None
    reuse: bool = Field(
        False,
        strict=True,
        description="Whether your own live short URL to the same target will do, if there is one; "
        "of several it is the oldest. The same target is the same text, character for character. "
        "It keeps what it was made with, so nothing but the target may be sent besides.",
    )


class PageQuery(BaseModel):
    """Which part of the short URLs to list."""

    limit: int = Field(PAGE_DEFAULT, ge=1, le=PAGE_MAX, description="How many at most.")
    after: CustomKey | None = Field(None, description="The last key of the page before.")


class Link(BaseModel):
    """A short URL."""

    key: str = Field(examples=["my-page"])
    short_url: str = Field(description="The address to share.", examples=["https://sho.rt/my-page"])
    target_url: str = Field(examples=[TARGET])
    hits: int = Field(description="How often it was followed.", examples=[42])
    created_at: datetime
    max_hits: int | None = Field(description="How often it leads there; null: always.")
    expires_at: datetime | None = Field(description="Until when it does; null: always.")
    state: Literal["live", "expired", "used up"]

    @classmethod
    def of(cls, short_url: ShortUrl, request: HttpRequest, *, hits: int) -> "Link":
        """Return `short_url` as the API shows it, with its address under the request's host."""
        return cls(
            key=short_url.key,
            short_url=address(request, short_url.key),
            target_url=short_url.target_url,
            hits=hits,
            created_at=short_url.created_at,
            max_hits=short_url.max_hits,
            expires_at=short_url.expires_at,
            state=short_url.state,  # type: ignore[arg-type]  # no deleted one is shown
        )


class LinkPage(BaseModel):
    """Some of the short URLs, newest first."""

    items: list[Link]
    next: str | None = Field(description="The address of the next page; null on the last one.")


class Fault(BaseModel):
    """What is wrong with one input."""

    field: str = Field(description="The field or parameter, or `body`.", examples=["target_url"])
    code: str = Field(description="The kind of error, for programs.", examples=["scheme"])
    message: str = Field(description="What is wrong, and what would be right.")


class Error(BaseModel):
    """Why a call cannot be answered. All errors look like this one."""

    detail: str = Field(description="A sentence for people.")
    errors: list[Fault] = Field([], description="Left out where no input is invalid.")
