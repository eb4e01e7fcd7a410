"""The lab's own paths, under /lab/ and only where the lab is on."""

from django.urls import path

from shorturl.lab import views

app_name = "lab"

urlpatterns = [
    path("create/<str:strategy>", views.create, name="create"),
    path("resolve/<str:strategy>/<str:key>", views.resolve, name="resolve"),
    path("edit/<str:key>", views.edit, name="edit"),
    path("spaces", views.spaces, name="spaces"),
    path("spaces/<str:name>", views.space, name="space"),
    path("spaces/<str:name>/links", views.links, name="links"),
]
