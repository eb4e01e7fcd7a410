"""The service's own paths. Each first segment must be in keys.RESERVED; checks.py sees to it."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path, register_converter

from shorturl import keys, my_links, views


class KeyConverter:
    """A path segment that can be a key."""

    regex = keys.CUSTOM_KEY.pattern

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(KeyConverter, "key")

urlpatterns = [
    path("", views.index, name="index"),
    path("login", LoginView.as_view(template_name="shorturl/login.html"), name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
    path("links", my_links.index, name="my_links"),
    path("links/<key:key>", my_links.edit, name="edit_link"),
    path("links/<key:key>/delete", my_links.delete, name="delete_link"),
    path("<key:key>", views.resolve, name="resolve"),
    path("<key:key>/stats", views.stats, name="stats"),
    path("<key:key>/qr.svg", views.qr_code, name="qr_code"),
]
