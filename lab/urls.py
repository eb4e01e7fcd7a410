"""The lab's own paths, under /lab/ and only where the lab is on."""

from django.urls import path

from lab.load import endpoints as views
from lab.pages import views as pages

app_name = "lab"

urlpatterns = [
    path("", pages.index, name="index"),
    path("races/<str:name>/", pages.race, name="race"),
    path("races/<str:name>/<str:strategy>/<int:processes>/", pages.exploration, name="exploration"),
    path("isolation/", pages.isolation, name="isolation"),
    path("museum/", pages.museum, name="museum"),
    path("explore", pages.explore, name="explore"),
    path("runs/<int:number>/", pages.batch, name="batch"),
    # What the load tests call.
    path("create/<str:strategy>", views.create, name="create"),
    path("resolve/<str:strategy>/<str:key>", views.resolve, name="resolve"),
    path("edit/<str:key>", views.edit, name="edit"),
    path("spaces", views.spaces, name="spaces"),
    path("spaces/<str:name>", views.space, name="space"),
    path("spaces/<str:name>/links", views.links, name="links"),
]
