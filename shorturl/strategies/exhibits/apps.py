"""The app of the tables that only exhibits write. Installed only if SHORTURL_LAB is on."""

from django.apps import AppConfig


class ExhibitsConfig(AppConfig):
    name = "shorturl.strategies.exhibits"
