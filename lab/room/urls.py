"""The paths of a room, below /lab/room/ and only in a local run."""

from django.urls import path

from lab.room import views

urlpatterns = [
    path("", views.room, name="room"),
    path("vote", views.vote, name="vote"),
    path("lead/", views.lead, name="lead_room"),
    path("ask", views.ask, name="ask_room"),
]
