"""The lab's paths, below /lab/ and only if the lab is on."""

from django.conf import settings
from django.urls import URLPattern, URLResolver, include, path, re_path

from lab.load import views as load
from lab.load.key_spaces import NAME
from lab.pages import exploration_views as explorations
from lab.pages import views as pages

app_name = "lab"

EXPLORATION = "races/<str:name>/<str:strategy>/<int:processes>/"

urlpatterns: list[URLPattern | URLResolver] = [
    path("", pages.index, name="index"),
    path("races/<str:name>/", pages.race, name="race"),
    path(EXPLORATION, explorations.exploration, name="exploration"),
    path(f"{EXPLORATION}scheduler/", explorations.scheduler, name="scheduler"),
    path(f"{EXPLORATION}picture.svg", explorations.picture, name="picture"),
    path("queue/", explorations.queue_of_locks, name="queue"),
    path("isolation/", pages.isolation, name="isolation"),
    path("museum/", pages.museum, name="museum"),
    path("load-runs/", pages.load_runs, name="load_runs"),
]

# In a room whoever uses the machine itself leads, and at the endpoints of load tests any client can
# create short URLs without a token.
if settings.LOCAL:
    urlpatterns += [
        path("room/", include("lab.room.urls")),
        re_path(rf"^load/(?P<space>{NAME})$", load.list_or_remove_links),
        re_path(
            rf"^load/(?P<space>{NAME})/(?P<operation>\w+)/(?P<strategy>\w+)$", load.run_strategy
        ),
    ]
