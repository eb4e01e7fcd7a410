"""Django's caches of rows, which are full in a service that has run for a while."""

from django.apps import apps
from django.conf import settings
from django.db.models.signals import post_delete, post_save


class RowCaches:
    """The caches of `ContentType.objects` and `Site.objects`, if these apps are installed."""

    def __init__(self, using: str) -> None:
        self._using = using
        self._is_stale = True
        for app, model in (("contenttypes", "ContentType"), ("sites", "Site")):
            if apps.is_installed(f"django.contrib.{app}"):
                for signal in (post_save, post_delete):
                    signal.connect(self._note_change, sender=apps.get_model(app, model))

    def put_back(self) -> None:
        """Fill the caches from the tables, if a row has changed since they were filled."""
        if not self._is_stale:
            return
        if apps.is_installed("django.contrib.contenttypes"):
            from django.contrib.contenttypes.models import ContentType

            ContentType.objects.clear_cache()
            content_types = ContentType.objects.db_manager(self._using)
            labels = {".".join(names) for names in content_types.values_list("app_label", "model")}
            # For a model without a row, get_for_models() would create the row.
            models = [model for model in apps.get_models() if model._meta.label_lower in labels]
            content_types.get_for_models(*models, for_concrete_models=False)
        if apps.is_installed("django.contrib.sites"):
            from django.contrib.sites.models import Site

            Site.objects.clear_cache()
            site = getattr(settings, "SITE_ID", None)
            if site and Site.objects.filter(pk=site).exists():
                Site.objects.get_current()
        self._is_stale = False

    def _note_change(self, **_: object) -> None:
        self._is_stale = True
