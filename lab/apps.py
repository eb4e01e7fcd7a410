"""The lab: races, explored and shown. Installed only if SHORTURL_LAB is on."""

from django.apps import AppConfig


class LabConfig(AppConfig):
    name = "lab"
