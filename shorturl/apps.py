"""The product: short URLs."""

from django.apps import AppConfig


class ShortUrlConfig(AppConfig):
    name = "shorturl"
    verbose_name = "URL shortener"

    def ready(self) -> None:
        from shorturl import checks  # noqa: F401
