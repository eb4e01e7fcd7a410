"""The schemas of requests and responses in JSON."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Literal, Self

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

from shorturl.bulk import MAX_LINKS
from shorturl.links import keys, labels
from shorturl.links.validators import (
    LOCATION_MAX_LENGTH,
    TARGET_URL_MAX_LENGTH,
    clean_target_url,
    validate_expiry,
)
from shorturl.models import ShortUrl

DEFAULT_LIMIT = 50  # links of a page
MAX_LIMIT = 100
TARGET = "https://example.com/a/long/page"


def pydantic_error(code: str, message: str) -> PydanticCustomError:
    # Braces in the template itself would be placeholders. Pydantic's messages have no full stop.
    return PydanticCustomError(code, "{message}", {"message": message.removesuffix(".")})


@contextmanager
def convert_errors() -> Iterator[None]:
    """Raise Django's ValidationError as an error of Pydantic's; it is used as a decorator."""
    try:
        yield
    except ValidationError as error:
        raise pydantic_error(error.code or "invalid", error.messages[0]) from error


def cleaned(clean: Callable[..., object]) -> AfterValidator:
    """Return Pydantic's validator for a function that cleans a value, such as clean_title()."""
    return AfterValidator(convert_errors()(clean))


def clean_key(key: str) -> str:
    keys.validate_custom_key(key)
    return key


def clean_target(target_url: str, info: ValidationInfo) -> str:
    host = info.context["request"].get_host()  # type: ignore[index]  # ninja sets it
    return clean_target_url(target_url, host)


TargetUrl = Annotated[
    str,
    cleaned(clean_target),
    Field(
        description=f"Where the short URL leads: http or https, at most {TARGET_URL_MAX_LENGTH:,} "
        f"characters, {LOCATION_MAX_LENGTH:,} bytes when it is percent-encoded, and neither an "
        "address of this service nor in a banned domain. It is stored "
        "as it was sent, with `https://` before an address that begins with its host.",
        examples=[TARGET],
        json_schema_extra={"maxLength": TARGET_URL_MAX_LENGTH},
    ),
]
CustomKey = Annotated[
    str, cleaned(clean_key), Field(json_schema_extra={"pattern": f"^{keys.CUSTOM_KEY.pattern}$"})
]
State = Literal["live", "expired", "used up"]


class LinkFields(BaseModel):
    model_config = ConfigDict(extra="forbid")

    max_hits: int | None = Field(
        None,
        ge=1,
        le=2**63 - 1,
        description="After this many hits the short URL answers 410.",
        examples=[100],
    )
    expires_at: Annotated[AwareDatetime, cleaned(validate_expiry)] | None = Field(
        None,
        description="From this time on the short URL answers 410.",
        examples=["2030-12-31T23:59:59Z"],
    )
    title: Annotated[str, cleaned(labels.clean_title)] = Field(
        "",
        description="The owner's name for the short URL.",
        examples=["Spring catalogue"],
        json_schema_extra={"maxLength": labels.TITLE_MAX_LENGTH},
    )
    tags: Annotated[list[str] | None, cleaned(lambda tags: labels.clean_tags(tags or []))] = Field(
        None,
        description=f"At most {labels.TAGS_MAX} words of {labels.TAG_MAX_LENGTH} characters, "
        "without commas and bars. Tags are stored in lower case, each once.",
        examples=[["catalogue", "spring"]],
    )
    forward_query: bool = Field(
        False,
        description="Whether a redirect adds the query of the short URL to the target's. The query "
        "is left out if the target would be too long with it.",
    )


def describe_change(schema: dict[str, Any]) -> None:
    """Take the defaults out of a schema: a generated client would send them, and undo a title."""
    for field in schema["properties"].values():
        field.pop("default", None)
    schema["minProperties"] = 1


class Change(LinkFields):
    """The fields of a short URL to change; one that is left out stays as it is."""

    model_config = ConfigDict(json_schema_extra=describe_change)

    target_url: TargetUrl = ""  # "" if it is not sent

    @model_validator(mode="after")
    def require_a_field(self) -> Self:
        if not self.model_fields_set:
            raise pydantic_error("nothing", f"Send any of {', '.join(type(self).model_fields)}")
        return self


class BulkLink(LinkFields):
    """A short URL to create in a bulk; null is as if the field were left out."""

    target_url: TargetUrl
    key: CustomKey | None = Field(
        None,
        description=f"A custom key: 1 to {keys.MAX_LENGTH} letters, digits, `-` and `_`. "
        "Without one, a random key is drawn.",
        examples=["my-page"],
    )

    @model_validator(mode="before")
    @classmethod
    def drop_nulls(cls, fields: Any) -> Any:
        """Leave out the known fields that are null."""
        if not isinstance(fields, dict):
            return fields
        known = cls.model_fields
        return {
            name: fields[name] for name in fields if fields[name] is not None or name not in known
        }


class NewLink(BulkLink):
    """A short URL to create, or to find."""

    reuse: bool = Field(
        False,
        strict=True,
        description="Return your own live short URL to the same target, if there is one; of "
        "several, the oldest. Two targets are the same if all their characters are equal. "
        "A reused short URL keeps its own values, so send only the target with this field.",
    )


class NewLinks(BaseModel):
    """Short URLs to create, all of them or none."""

    model_config = ConfigDict(extra="forbid")

    links: list[BulkLink] = Field(min_length=1, max_length=MAX_LINKS)


class Filters(BaseModel):
    """The filters of the list."""

    q: Annotated[str, cleaned(lambda text: labels.clean_line(text, "The text"))] = Field(
        "",
        description="Those whose key, target or title contains this text, in any case; or the one "
        "with this short URL.",
    )
    tags: Annotated[str, cleaned(labels.clean_tags)] = Field(
        "", description="Those that have all of these tags, separated by commas."
    )
    state: State | None = Field(None, description="Those in this state.")


class PageQuery(Filters):
    """Filters of the list, and one of its pages."""

    limit: int = Field(DEFAULT_LIMIT, ge=1, le=MAX_LIMIT, description="Short URLs of a page.")
    after: CustomKey | None = Field(None, description="The `next` of the page before.")


class Link(BaseModel):
    """A short URL."""

    key: str = Field(examples=["my-page"])
    short_url: str = Field(description="The address to share.", examples=["https://sho.rt/my-page"])
    target_url: str | None = Field(
        description="The target; null if the short URL has a limit and is not yours.",
        examples=[TARGET],
    )
    hits: int = Field(description="How often the short URL was followed.", examples=[42])
    created_at: datetime
    max_hits: int | None = Field(description="Its limit of hits; null: no limit.")
    expires_at: datetime | None = Field(description="Its expiry; null: no expiry.")
    title: str = Field(examples=["Spring catalogue"])
    tags: list[str] = Field(examples=[["catalogue", "spring"]])
    forward_query: bool = Field(description="Whether the target gets the query of the short URL.")
    state: State

    @classmethod
    def of(cls, link: ShortUrl, request: HttpRequest, *, shows_target: bool = True) -> "Link":
        values = {name: getattr(link, name) for name in cls.model_fields if name != "short_url"}
        if not shows_target:
            values["target_url"] = None
        values["tags"] = link.tags or []
        return cls(short_url=keys.short_url(request, link.key), **values)


class Links(BaseModel):
    """The new short URLs, in the order of the request."""

    links: list[Link]


class LinkPage(BaseModel):
    """Some of the short URLs, newest first."""

    items: list[Link]
    next: str | None = Field(
        description="The `after` of the next page; null on the last one.", examples=["my-page"]
    )


class Fault(BaseModel):
    """What is wrong with an input."""

    field: str = Field(description="The field or parameter, or `body`.", examples=["target_url"])
    code: str = Field(description="The kind of error, for programs.", examples=["scheme"])
    message: str = Field(description="What is wrong, and what would be right.")


class Error(BaseModel):
    """Why a call cannot be answered. All errors have this shape."""

    detail: str = Field(description="A sentence for people.")
    errors: list[Fault] = Field([], description="Left out if no input is invalid.")
