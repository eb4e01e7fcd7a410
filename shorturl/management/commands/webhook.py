"""`manage.py webhook`: adds, lists and removes the receivers of events."""

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db.models import Count, OuterRef, Subquery

from shorturl.events.subscribing import subscribe, unsubscribe
from shorturl.management.database_command import DatabaseCommand
from shorturl.models import LinkEvent, Subscription


class Command(DatabaseCommand):
    """Writes the secret or the list to standard output, and all else to standard error."""

    help = "Add, list and remove the receivers to which `manage.py deliver` sends events."
    what_now = "Nothing was changed: try again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        does = parser.add_subparsers(required=True, metavar="add | list | remove")
        for do, what in (
            (self.add, "send this address every later change, and print its secret"),
            (self.remove, "send it nothing more, and delete its waiting events"),
        ):
            one = does.add_parser(do.__name__, help=what)
            one.add_argument("url", metavar="URL", help="for example https://example.com/hook")
            one.set_defaults(do=do)
        does.add_parser("list", help="list the receivers and how many events wait").set_defaults(
            do=self.list
        )

    def handle(self, *args: Any, do: Any, **options: Any) -> None:
        do(**options)

    def add(self, url: str, **options: Any) -> None:
        try:
            self.stdout.write(subscribe(url).secret)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        self.stderr.write("This secret signs each request: docs/webhooks.md says how to verify it.")

    def remove(self, url: str, **options: Any) -> None:
        if not unsubscribe(url):
            raise CommandError(f"No receiver is {url!r}: see `webhook list`.")

    def list(self, **options: Any) -> None:
        events = (
            LinkEvent.objects.filter(subscription=OuterRef("pk")).order_by().values("subscription")
        )
        waiting = Subquery(events.annotate(number=Count("pk")).values("number"))
        for each in Subscription.objects.annotate(waiting=waiting).order_by("id"):
            self.stdout.write(f"{each.url}  {each.waiting or 0:,} events wait")
