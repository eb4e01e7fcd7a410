"""`{% site as site %}`: what the operator has set for all pages."""

from typing import Any

from django import template
from django.conf import settings
from django.templatetags.static import static
from django.urls import reverse

register = template.Library()


@register.simple_tag
def site() -> dict[str, Any]:
    """Return the settings; a tag works in pages without a request, a context processor does not."""
    return {
        "name": settings.SHORTURL_NAME,
        "logo": reverse("logo") if settings.SHORTURL_LOGO else static("shorturl/favicon.svg"),
        "footer_links": settings.SHORTURL_FOOTER_LINKS,  # URLs by their texts
    }
