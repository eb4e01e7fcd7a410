"""The lab: races, explored and shown. Installed only where SHORTURL_LAB is on."""

from django.apps import AppConfig


class LabConfig(AppConfig):
    """An app of its own, which the product never imports."""

    name = "lab"
    label = "lab"
    verbose_name = "Lab"
