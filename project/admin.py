"""/admin/ of accounts and groups: Django's, which writes what was changed, and no more."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from shorturl.admin import ChangeAdmin, refuse_conflicts
from shorturl.forms import ChangeForm
from shorturl.limits import owners


class AccountForm(ChangeForm, UserChangeForm):  # type: ignore[type-arg]
    pass


admin.site.unregister([User, Group])
admin.site.register(Group, type("GroupAdmin", (ChangeAdmin, GroupAdmin), {}))


@admin.register(User)
class AccountAdmin(ChangeAdmin, UserAdmin):  # type: ignore[type-arg]
    form = AccountForm
    readonly_fields = ("last_login", "date_joined")

    def user_change_password(self, *args: Any, **options: Any) -> HttpResponse:
        """Set the password and write the admin's log, or neither."""
        with refuse_conflicts(), transaction.atomic():
            return super().user_change_password(*args, **options)

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        owners.lock(queryset)
        super().delete_queryset(request, queryset)
