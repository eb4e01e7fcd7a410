"""The app of the command `manage.py interleave`, for INSTALLED_APPS: `pginterleave.django`."""

from django.apps import AppConfig


class InterleaveConfig(AppConfig):
    name = "pginterleave.django"
    label = "pginterleave"
    verbose_name = "pginterleave"
