"""The app `pginterleave.django`."""

from django.apps import AppConfig


class InterleaveConfig(AppConfig):
    name = "pginterleave.django"
    label = "pginterleave"
    verbose_name = "pginterleave"
