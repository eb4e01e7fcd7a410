"""A path for each view."""

import importlib.util
from typing import Any

from django.urls import include, path

from shop import views

urlpatterns: list[Any] = [
    path(f"{view.__name__}/<code>/", view, name=view.__name__) for view in views.VIEWS
]

# Two libraries that a project may have.
if importlib.util.find_spec("rest_framework"):
    urlpatterns.append(path("api/", include("shop.rest")))
if importlib.util.find_spec("ninja"):
    from shop.ninja_api import api

    urlpatterns.append(path("ninja/", api.urls))
