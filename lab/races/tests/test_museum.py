"""The race museum: the docstrings and signatures of its exhibits."""

import inspect

import pytest
from django.db import IntegrityError

from lab.races.museum import MUSEUM, Exhibit
from lab.races.museum.null_in_a_unique_key import DomainLink
from shorturl.strategies.strategy import Verdict


@pytest.mark.parametrize("exhibit", MUSEUM.values(), ids=MUSEUM)
def test_docstrings_say_why_and_the_signature_is_right(exhibit: Exhibit) -> None:
    for strategy in exhibit.strategies.values():
        called = ", ".join(
            f"{each.name}: {getattr(each.annotation, '__name__', each.annotation)}"
            for each in inspect.signature(strategy.function).parameters.values()
        )
        assert f"({called}) -> " in exhibit.signature.replace("Iterable[str]", "Iterable")
        right = strategy.verdict is Verdict.RIGHT
        says = "Why nothing can go wrong:" if right else "What goes wrong:"
        assert says in strategy.function.__doc__


@pytest.mark.django_db
def test_the_unique_key_holds_on_every_domain_but_the_default_one() -> None:
    """On another domain the second link is refused, so the NULL is hard to notice."""
    exhibit = MUSEUM["null_in_a_unique_key"]
    exhibit.setup(exhibit.strategies["as_found"])
    for domain in (None, None, 7):
        DomainLink.objects.create(code="sale", domain_id=domain, target_url="https://a.example/")
    with pytest.raises(IntegrityError):
        DomainLink.objects.create(code="sale", domain_id=7, target_url="https://b.example/")
