"""/admin/: the short URLs, the API's tokens, and the banned domains."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from shorturl import operations
from shorturl.exceptions import LimitTooLow, TargetBanned
from shorturl.forms import ChangeForm, LinkForm
from shorturl.limits import owners
from shorturl.links.validators import shortened
from shorturl.models import ApiToken, BannedDomain, ShortUrl, ShortUrlQuerySet

# Beside it a list of short URLs would not fit into a window of 1280 pixels.
admin.site.enable_nav_sidebar = False
EMPTY = admin.EmptyFieldListFilter
SCOPES = tuple(f"can_{scope}" for scope in ApiToken.SCOPES)


class RefusingAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Answers with a 400 what Django would answer with a 500."""

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        try:
            with refuse_conflicts():
                return super().changelist_view(request, extra_context)
        except (ValueError, OverflowError) as error:
            # Django does not check a filter's value and the id of a selected row before its query.
            raise BadRequest("A filter or a selected row has a value that no list has.") from error

    def changeform_view(self, *args: Any, **options: Any) -> HttpResponse:
        with refuse_conflicts():
            return super().changeform_view(*args, **options)

    def delete_view(self, *args: Any, **options: Any) -> HttpResponse:
        with refuse_conflicts():
            return super().delete_view(*args, **options)


class ChangeAdmin(RefusingAdmin):
    """Writes the changed columns of a row that is there until the COMMIT, and deletes locked rows.

    Django would write a row as it was read, and insert it again if it was deleted meanwhile.
    """

    form = ChangeForm

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            obj.save()
            return
        rows = self.model._base_manager.select_for_update(no_key=True)
        if not rows.filter(pk=obj.pk).values_list("pk"):
            raise BadRequest(f"{obj} was deleted meanwhile, and is not changed.")
        columns = {field.name for field in self.opts.concrete_fields}
        obj.save(update_fields=columns.intersection(form.changed_data))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.delete_queryset(request, self.model._base_manager.filter(pk=obj.pk))

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Delete the rows; first lock them, so that whoever is about to name one is refused."""
        # PostgreSQL refuses to lock the rows of a search, which joins other tables.
        rows = self.model._base_manager.filter(pk__in=queryset.values("pk"))
        list(rows.order_by("pk").select_for_update().values_list("pk"))
        rows.delete()


@contextmanager
def refuse_conflicts() -> Iterator[None]:
    """Raise BadRequest where PostgreSQL refuses a taken name, or a reference to a row that is gone.

    COMMIT checks the references, also that of the admin's log to whoever is logged in.
    """
    try:
        yield
    except IntegrityError as error:
        raise BadRequest(
            "Nothing is changed: the name was just taken, or an account or group just removed."
        ) from error


class OwnerForm(ActionForm):
    owner = forms.CharField(label="New owner:", required=False)


@admin.register(ShortUrl)
class ShortUrlAdmin(RefusingAdmin):
    form = LinkForm
    readonly_fields = ("owner", "key", "hits", "created_at", "deleted_at")
    fields = (*LinkForm.Meta.fields, *readonly_fields)
    list_display = ("key", "state", "hits", "target", "owner", "created_at")
    list_filter = ("created_at", ("owner", EMPTY), ("expires_at", EMPTY), ("deleted_at", EMPTY))
    search_fields = ("key", "target_url", "title", "tags", "owner__username")
    ordering = ("-id",)
    show_full_result_count = False  # a search does not also count the whole table
    actions = ("hand_over",)
    action_form = OwnerForm

    def get_queryset(self, request: HttpRequest) -> ShortUrlQuerySet:
        return ShortUrl.objects.with_state()

    @admin.display(description="target URL", ordering="target_url")
    def target(self, short_url: ShortUrl) -> str:
        return shortened(short_url.target_url, 80)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # only operations.create() handles taken keys

    def get_form(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        form = super().get_form(request, *args, **kwargs)
        form.own_host = request.get_host()  # type: ignore[attr-defined]
        return form

    def save_model(self, request: HttpRequest, obj: ShortUrl, form: Any, change: bool) -> None:
        """Write only the changed fields: save() would lose hits counted since, or a deletion."""
        links = ShortUrl.objects.filter(pk=obj.pk, deleted_at=None)
        try:
            if form.changed_data and not operations.change(links, **form.changed_values()):
                raise BadRequest(f"/{obj.key} was deleted, and is not changed.")
        except (LimitTooLow, TargetBanned) as error:
            raise BadRequest(str(error)) from error

    @transaction.atomic
    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        # PostgreSQL refuses to lock the rows of a search, which joins the owners.
        links = ShortUrl.objects.filter(pk__in=queryset.values("pk"))
        links.lock()
        links.delete()

    @admin.action(description="Give the selected short URLs to", permissions=["change"])
    def hand_over(self, request: HttpRequest, queryset: ShortUrlQuerySet) -> None:
        links = ShortUrl.objects.filter(pk__in=queryset.values("pk"), deleted_at=None)
        try:
            account = User.objects.get(username=request.POST.get("owner"))
            count = owners.hand_over(links, account.pk)
        except (User.DoesNotExist, IntegrityError):  # or the account was removed meanwhile
            self.message_user(request, "There is no user of this name.", messages.ERROR)
            return
        self.message_user(request, f"Handed over to {account}: {count:,}.", messages.SUCCESS)


@admin.register(ApiToken)
class ApiTokenAdmin(ChangeAdmin):
    fields = ("name", "user", *SCOPES)
    raw_id_fields = ("user",)
    list_display = ("name", "user", *SCOPES, "prefix", "created_at", "revoked_at")
    list_filter = (("revoked_at", EMPTY),)
    search_fields = ("name", "prefix", "user__username")
    ordering = ("-id",)
    actions = ("revoke",)

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        if not change:
            obj.set_random_text()
        super().save_model(request, obj, form, change)

    def response_add(self, request: HttpRequest, obj: ApiToken, *args: Any) -> HttpResponse:
        """Show the token at once: a message after a redirect would be stored in between."""
        context = {**self.admin_site.each_context(request), "opts": self.opts, "token": obj}
        return TemplateResponse(request, "admin/shorturl/apitoken/added.html", context)

    @admin.action(description="Revoke the selected API tokens", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        count = queryset.filter(revoked_at=None).update(revoked_at=Now())
        self.message_user(request, f"Tokens revoked: {count}.", messages.SUCCESS)


@admin.register(BannedDomain)
class BannedDomainAdmin(RefusingAdmin):
    """Lists the bans, and lifts them by deleting.

    `manage.py ban` adds one. It searches all links, which takes too long for a request, and if it
    is interrupted it can be repeated.
    """

    list_display = ("domain", "banned_at")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        context = {"subtitle": "`manage.py ban DOMAIN` bans another; deleting a row lifts its ban"}
        return super().changelist_view(request, context)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
