"""`{% site as site %}`: what the operator has set for all pages."""

from typing import NamedTuple

from django import template
from django.conf import settings
from django.templatetags.static import static
from django.urls import reverse

register = template.Library()


class Site(NamedTuple):
    name: str
    logo: str  # the path of the image
    footer_links: dict[str, str]  # URLs by their texts


@register.simple_tag
def site() -> Site:
    """Return the settings; a tag works in pages without a request, a context processor does not."""
    return Site(
        name=settings.SHORTURL_NAME,
        logo=reverse("logo") if settings.SHORTURL_LOGO else static("shorturl/favicon.svg"),
        footer_links=settings.SHORTURL_FOOTER_LINKS,
    )
