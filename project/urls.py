"""Which part of the project answers which path."""

from django.conf import settings
from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from shorturl.api import api

urlpatterns = [
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("api", RedirectView.as_view(url="/api/docs")),
    path("api/", api.urls),
    *([path("lab/", include("shorturl.lab.urls"))] if settings.SHORTURL_LAB else []),
    path("", include("shorturl.urls")),
]

handler400 = "shorturl.views.bad_request"
handler500 = "project.unavailable.server_error"
