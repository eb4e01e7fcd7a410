"""The app `pginterleave.django` for INSTALLED_APPS, with the command `manage.py interleave`."""

from django.apps import AppConfig


class InterleaveConfig(AppConfig):
    name = "pginterleave.django"
    label = "pginterleave"
    verbose_name = "pginterleave"
