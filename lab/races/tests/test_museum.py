"""The race museum: the signatures of its exhibits, and what one of them hides."""

import inspect

import pytest
from django.db import IntegrityError

from lab.races.museum import MUSEUM, Exhibit
from lab.races.museum.null_in_a_unique_key import DomainLink


@pytest.mark.parametrize("exhibit", MUSEUM.values(), ids=MUSEUM)
def test_the_signature_that_a_page_shows_is_right(exhibit: Exhibit) -> None:
    for strategy in exhibit.strategies.values():
        called = ", ".join(
            f"{each.name}: {getattr(each.annotation, '__name__', each.annotation)}"
            for each in inspect.signature(strategy.function).parameters.values()
        )
        assert f"({called}) -> " in exhibit.signature.replace("Iterable[str]", "Iterable")


@pytest.mark.django_db
def test_the_unique_key_holds_on_every_domain_but_the_default_one() -> None:
    """On another domain the second link is refused, so the NULL is hard to notice."""
    exhibit = MUSEUM["null_in_a_unique_key"]
    exhibit.setup(exhibit.strategies["as_found"])
    for domain in (None, None, 7):
        DomainLink.objects.create(code="sale", domain_id=domain, target_url="https://a.example/")
    with pytest.raises(IntegrityError):
        DomainLink.objects.create(code="sale", domain_id=7, target_url="https://b.example/")
