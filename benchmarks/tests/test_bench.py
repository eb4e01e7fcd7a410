"""Redirects that were answered and not counted."""

import pytest
from django.db.models import F

from benchmarks import bench, wrk
from benchmarks.bench import Bench
from benchmarks.measurements import HOT, Load, Measurement
from benchmarks.wrk import Sample
from shorturl.models import ShortUrl


@pytest.mark.django_db(transaction=True)
def test_lost_redirects(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 answers, 2 of them errors, and `counted` hits."""
    counted = 5

    def run(url: str, **_: int | None) -> Sample:
        ShortUrl.objects.update(hits=F("hits") + counted)
        return Sample(requests=10, seconds=1.0, p50=1.0, p99=2.0, errors=2)

    monkeypatch.setattr(bench, "make_links", lambda: None)
    monkeypatch.setattr(wrk, "run", run)
    measured = Bench([16], seconds=1)
    ShortUrl.objects.create(key="k1", target_url="https://example.com/", hits=100)
    hot = Measurement("update_returning", HOT)
    measured.ask(hot, "http://unused", processor=float)
    assert measured.lost == 10 - 2 - 5
    measured.ask(hot, "http://unused", processor=float)
    assert measured.lost == 6
    counted = 9  # one of them was answered too late for wrk, which makes up for none
    measured.ask(hot, "http://unused", processor=float)
    assert (measured.lost, len(hot.samples)) == (6, 3)
    counted = 0
    measured.ask(
        Measurement("one line", Load(None, 16)), "http://unused", processor=float
    )  # counts no hits
    assert measured.lost == 6
