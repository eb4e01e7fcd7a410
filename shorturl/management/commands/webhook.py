"""`manage.py webhook`: adds, lists and removes the receivers of events."""

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db.models import Count

from shorturl.events.subscribing import subscribe, unsubscribe
from shorturl.exceptions import counted
from shorturl.management.database_command import DatabaseCommand
from shorturl.models import Subscription


class Command(DatabaseCommand):
    """Writes the secret or the list to standard output, and all else to standard error."""

    help = "Add, list and remove the receivers to which `manage.py deliver` sends events."
    what_now = "Nothing was changed: try again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(required=True, metavar="add | list | remove")
        add = actions.add_parser("add", help="send it every later change, and print its secret")
        remove = actions.add_parser("remove", help="send nothing more; delete its waiting events")
        for action in (add, remove):
            action.add_argument("url", metavar="URL", help="such as https://example.com/hook")
        add.set_defaults(action=self.add)
        remove.set_defaults(action=self.remove)
        list_all = actions.add_parser("list", help="list the receivers and how many events wait")
        list_all.set_defaults(action=self.list)

    def handle(self, *args: Any, action: Any, **options: Any) -> None:
        action(**options)

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
        receivers = Subscription.objects.annotate(waiting=Count("events")).order_by("id")
        for receiver in receivers:
            self.stdout.write(f"{receiver.url}  {counted(receiver.waiting, 'event')} waiting")
