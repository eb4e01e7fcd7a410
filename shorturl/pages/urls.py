"""The paths of the pages. Each first segment must be in keys.RESERVED: a test compares them."""

from django.urls import path, re_path, register_converter
from django.urls.converters import StringConverter
from django.views.generic import RedirectView

from shorturl.links import keys
from shorturl.pages import my_links, redirect, views


class KeyConverter(StringConverter):
    """A path segment that can be a key."""

    regex = keys.CUSTOM_KEY.pattern


register_converter(KeyConverter, "key")
# The end of a sentence behind a key; "+" is the preview's.
KEY_AND_PUNCTUATION = rf"^(?P<key>{KeyConverter.regex})[^\w\x00-\x1f/+-]{{1,3}}\Z"

urlpatterns = [
    path("", views.index, name="index"),
    path("static/logo", views.logo, name="logo"),
    path("links", my_links.index, name="my_links"),
    path("links/", RedirectView.as_view(pattern_name="my_links", query_string=True)),
    # No key has a dot, and none of its pages these names.
    path("links/found.csv", my_links.save, name="found_links"),
    path("links/found/stats", my_links.stats, name="found_stats"),
    path("links/<key:key>", my_links.edit, name="edit_link"),
    path("links/delete/selected", my_links.delete, name="delete_selected"),
    path("links/<key:key>/delete", my_links.delete, name="delete_link"),
    path("<key:key>", redirect.resolve, name="resolve"),
    path("<key:key>+", redirect.preview, name="preview"),
    re_path(KEY_AND_PUNCTUATION, redirect.drop_punctuation),
    path("<key:key>/stats", views.stats, name="stats"),
    path("<key:key>/qr.svg", views.qr_code, name="qr_code"),
    path("<key:key>/qr.png", views.qr_code_file, name="qr_code_file"),
]
