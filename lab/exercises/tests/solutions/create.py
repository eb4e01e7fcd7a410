"""Solutions of the exercise `create`."""

from itertools import islice
from typing import Any

from django.db import IntegrityError, transaction

from lab.exercises.tests.solutions import BY_NAME, sql
from shorturl.links.keys import is_collision
from shorturl.models import ShortUrl
from shorturl.strategies.creating import on_conflict, table_lock

exhausted = ShortUrl.KeySpaceExhausted


def first_free(target_url, keys, is_taken=is_collision):
    for key in keys:
        try:
            with transaction.atomic():
                return ShortUrl.objects.create(key=key, target_url=target_url)
        except IntegrityError as error:
            if not is_taken(error):
                raise
    raise exhausted([])


def with_created(target_url, *, keys):
    for key in keys:
        made, created = ShortUrl.objects.get_or_create(key=key, defaults={"target_url": target_url})
        if created:
            return made
    raise exhausted(keys)


def locks_each_key(target_url, *, keys):
    for key in keys:
        with transaction.atomic():
            sql(BY_NAME, key)
            if not ShortUrl.objects.filter(key=key).exists():
                return ShortUrl.objects.create(key=key, target_url=target_url)
    raise exhausted(keys)


RIGHT: list[Any] = [with_created, locks_each_key, table_lock.create]


def caught_inside(target_url, *, keys):
    for key in keys:
        try:
            return ShortUrl.objects.create(key=key, target_url=target_url)
        except IntegrityError as error:
            if not is_collision(error):
                raise
    raise exhausted(keys)


def every_integrity_error(target_url, *, keys):
    return first_free(target_url, keys, lambda error: True)


def five_keys(target_url, *, keys):
    return first_free(target_url, islice(keys, 5))


def one_link_for_a_target(target_url, *, keys):
    known = ShortUrl.objects.filter(target_url=target_url, owner=None).first()
    return known or on_conflict.create(target_url, keys=keys)


WRONG: dict[Any, str] = {
    caught_inside: "TransactionManagementError",
    every_integrity_error: "a CHECK refuses the row",
    five_keys: "raises KeySpaceExhausted",
    one_link_for_a_target: "is right",
}
