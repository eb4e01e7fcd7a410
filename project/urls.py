"""The paths, and the part of the project that answers each."""

from http import HTTPStatus

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import include, path, re_path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from django.views.generic import RedirectView

from shorturl.api import api
from shorturl.api.error_responses import not_found


def show_lab_is_off(request: HttpRequest) -> HttpResponse:
    return render(request, "lab_is_off.html", status=HTTPStatus.NOT_FOUND)


show_api_docs = csrf_exempt(require_safe(RedirectView.as_view(url="/api/docs")))

urlpatterns = [
    path("admin", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("api", show_api_docs),
    path("api/", not_found),
    path("api/docs/", show_api_docs),
    path("api/", api.urls),
    re_path("^api/", not_found),
    path("lab", RedirectView.as_view(url="/lab/", query_string=True)),
    path("lab/", include("lab.urls") if settings.SHORTURL_LAB else show_lab_is_off),
    path("", include("project.accounts.urls")),
    path("", include("shorturl.pages.urls")),
]

handler400 = "shorturl.pages.views.bad_request"
handler500 = "project.unavailable.answer_error"
