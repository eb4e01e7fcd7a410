"""The race museum: what one of its exhibits hides."""

import pytest
from django.db import IntegrityError

from lab.races.museum import MUSEUM
from lab.races.museum.null_in_a_unique_key import DomainLink


@pytest.mark.django_db
def test_the_unique_key_holds_on_every_domain_but_the_default_one() -> None:
    """On another domain the second link is refused, so the NULL is hard to notice."""
    exhibit = MUSEUM["null_in_a_unique_key"]
    exhibit.setup(exhibit.strategies["as_found"])
    for domain in (None, None, 7):
        DomainLink.objects.create(code="sale", domain_id=domain, target_url="https://a.example/")
    with pytest.raises(IntegrityError):
        DomainLink.objects.create(code="sale", domain_id=7, target_url="https://b.example/")
