"""The page of an exploration is read while its recording is replaced, in every order."""

import copy
from http import HTTPStatus

import pytest
from django.test import Client

from lab.conftest import NAIVE, Kept
from lab.models import Recording
from lab.recording import store
from lab.recording.jobs import jobs_named
from pginterleave import Outcome, explore


@pytest.mark.exhaustive
@pytest.mark.django_db(transaction=True)
def test_a_page_shows_the_old_recording_or_the_new_one(
    explored: dict[str, Kept], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One statement reads everything that the page shows, so no commit comes in between."""
    (job,) = jobs_named("lost_update/naive")
    kept = explored["lost_update/naive"]
    monkeypatch.setattr(store, "SERVICE", "default")

    def record(seconds: float) -> None:
        recording = copy.copy(kept.recording)
        recording.pk, recording.seconds = None, seconds
        schedules = [copy.copy(schedule) for schedule in kept.schedules]
        for schedule in schedules:
            schedule.pk = None
        recording._state.adding = True
        store.replace(job, recording, schedules)

    def setup() -> None:
        Recording.objects.all().delete()
        record(1)

    def read() -> HTTPStatus:
        response = Client(raise_request_exception=False).get(NAIVE)
        return HTTPStatus(response.status_code)

    def all_is_shown(outcomes: list[Outcome]) -> str:
        assert Recording.objects.get().seconds == 2
        return "" if outcomes[0].returned == HTTPStatus.OK else f"{outcomes[0]}"

    explore([read, lambda: record(2)], setup=setup, invariant=all_is_shown).assert_safe()
