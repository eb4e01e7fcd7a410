"""/admin/: the short URLs, the API's tokens, and Django's users and groups."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.widgets import AdminTextInputWidget
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.core.exceptions import BadRequest, ValidationError
from django.db import DataError
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect

from shorturl import operations, owners
from shorturl.forms import LinkForm
from shorturl.models import ApiToken, ShortUrl, ShortUrlQuerySet
from shorturl.validators import shortened, validate_target_url


class CheckedAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """An admin that answers what no page of it asks for, and PostgreSQL or Python refuse."""

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Return the list to show; raise IncorrectLookupParameters for a filter without sense.

        Django does so for some of them, and then shows the whole list.
        """
        try:
            return super().get_changelist_instance(request)
        except (DataError, ValueError, OverflowError) as error:  # a regex "(", the year 0, a NUL
            raise IncorrectLookupParameters from error

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Return the field of a form; an account that is chosen cannot be removed before COMMIT."""
        if db_field.remote_field.model is User:
            kwargs["queryset"] = User.objects.select_for_update(no_key=True)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """Do what was chosen from the list; raise BadRequest when the selection is not of rows."""
        try:
            for selected in request.POST.getlist(ACTION_CHECKBOX_NAME):
                self.opts.pk.to_python(selected)
        except ValidationError as error:
            raise BadRequest("The selection contains something that is not an id.") from error
        return super().response_action(request, queryset, *args, **kwargs)


class AdminForm(LinkForm, forms.ModelForm):  # type: ignore[type-arg]
    """The form of a short URL, with what can be edited of it."""

    # Without the model's maxlength, at which a browser cuts what is pasted without a word.
    target_url = forms.CharField(
        label="Target URL", widget=AdminTextInputWidget, validators=[validate_target_url]
    )

    def clean_max_hits(self) -> int | None:
        """Return the limit; raise ValidationError for one below the hits that the form shows."""
        max_hits: int | None = self.cleaned_data["max_hits"]
        if max_hits is not None and max_hits < self.instance.total_hits:
            raise ValidationError(str(ShortUrl.LimitTooLow(max_hits)), code="too_low")
        return max_hits


class DeletedFilter(admin.SimpleListFilter):
    """Lists what is in service, what was deleted, or both."""

    title = "state"
    parameter_name = "deleted"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("no", "In service"), ("yes", "Deleted")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() in ("no", "yes"):
            return queryset.filter(deleted_at__isnull=self.value() == "no")
        return queryset


@admin.register(ShortUrl)
class ShortUrlAdmin(CheckedAdmin):
    """Short URLs: to look for, to lead elsewhere, to delete. They are created on the front page."""

    form = AdminForm
    fields = (
        *("key", "target_url", "owner", "max_hits", "expires_at"),
        *("total_hits", "created_at", "deleted_at"),
    )
    raw_id_fields = ("owner",)
    readonly_fields = ("key", "total_hits", "created_at", "deleted_at")
    list_display = ("key", "target", "owner", "total_hits", "created_at", "state", "in_service")
    list_select_related = ("owner",)
    list_filter = (DeletedFilter, "created_at")
    search_fields = ("key", "target_url", "owner__username")
    search_help_text = "Part of the key, of the target URL or of the owner's name"
    ordering = ("-id",)
    list_per_page = 50
    # A search counts what it finds, not the whole table as well.
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> ShortUrlQuerySet:
        """Return all short URLs, with all of their hits, and what became of them."""
        return ShortUrl.objects.with_total_hits().with_state()

    @admin.display(description="hits", ordering="total_hits")
    def total_hits(self, short_url: ShortUrl) -> int:
        """Return how often the short URL was followed."""
        return short_url.total_hits

    @admin.display(description="state")
    def state(self, short_url: ShortUrl) -> str:
        """Return whether it leads anywhere, and otherwise why not."""
        return short_url.state

    @admin.display(description="target URL", ordering="target_url")
    def target(self, short_url: ShortUrl) -> str:
        """Return the target URL, cut to what a row has room for."""
        return shortened(short_url.target_url, 80)

    @admin.display(description="in service", boolean=True, ordering="deleted_at")
    def in_service(self, short_url: ShortUrl) -> bool:
        """Return whether the short URL leads anywhere."""
        return short_url.deleted_at is None

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: only operations.create() deals with a key that is taken."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: ShortUrl | None = None) -> bool:
        """Return whether there is a target to edit: a deleted short URL has none any more."""
        return super().has_change_permission(request, obj) and not (obj and obj.deleted_at)

    def has_delete_permission(self, request: HttpRequest, obj: ShortUrl | None = None) -> bool:
        """Return whether there is something to delete."""
        return super().has_delete_permission(request, obj) and not (obj and obj.deleted_at)

    def get_form(
        self, request: HttpRequest, obj: ShortUrl | None = None, change: bool = False, **kwargs: Any
    ) -> type[forms.ModelForm[ShortUrl]]:
        """Return the form, a class made for this request, which knows the service's own host."""
        form = super().get_form(request, obj, change=change, **kwargs)
        form.own_host = request.get_host()  # type: ignore[attr-defined]
        return form

    def save_model(self, request: HttpRequest, obj: ShortUrl, form: Any, change: bool) -> None:
        """Write what was changed and nothing else.

        The other columns are as old as the form, and a bare save() would write them back: the hits
        that were counted while it was open would be lost, and a deletion undone.
        """
        changes = {name: form.cleaned_data[name] for name in form.changed_data}
        try:
            links = ShortUrl.objects.filter(pk=obj.pk, deleted_at=None)
            if changes and not operations.change(links, **changes):
                raise BadRequest(f"/{obj.key} was deleted meanwhile, and is not changed.")
        except ShortUrl.LimitTooLow as error:  # by hits that were counted since the form was read
            raise BadRequest(str(error)) from error

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return what a deletion takes out of service; nothing hangs on a short URL."""
        keys = [str(short_url) for short_url in objs if short_url.deleted_at is None]
        return keys, {self.opts.verbose_name_plural: len(keys)}, set(), []


SCOPES = tuple(f"can_{scope}" for scope in ApiToken.SCOPES)


@admin.register(ApiToken)
class ApiTokenAdmin(CheckedAdmin):
    """The API's tokens: to make, to rename, to revoke. A token that is gone explains nothing."""

    fields = ("name", "user", *SCOPES, "prefix", "created_at", "revoked_at")
    readonly_fields = ("prefix", "created_at", "revoked_at")
    raw_id_fields = ("user",)
    list_display = ("name", "user", "may", "prefix", "created_at", "revoked_at")
    list_select_related = ("user",)
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    search_fields = ("name", "prefix", "user__username")
    ordering = ("-id",)
    actions = ("revoke",)

    def get_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> Any:
        """Return what there is to show: of a new token, nothing that comes with it."""
        return self.fields if obj else ("name", "user", *SCOPES)

    @admin.display(description="scopes")
    def may(self, token: ApiToken) -> str:
        """Return what the token may do."""
        return ", ".join(token.scopes)

    def has_delete_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        """Return False: a token is revoked, and its row tells when."""
        return False

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        """Save a new token, or what was changed of an old one, which leaves a revocation alone."""
        if change:
            obj.save(update_fields=form.changed_data)
        else:
            obj.draw()
            obj.save()

    def response_add(
        self, request: HttpRequest, obj: ApiToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the token, in the answer itself.

        The usual redirect would take it along in a message, and those are kept in a cookie or in
        the session until they are shown.
        """
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "The new API token",
            "token": obj,
        }
        return TemplateResponse(request, "admin/shorturl/apitoken/added.html", context)

    @admin.action(description="Revoke the selected API tokens", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        """Refuse the tokens from the next call on."""
        count = queryset.filter(revoked_at=None).update(revoked_at=Now())
        self.message_user(request, f"Tokens revoked: {count}.", messages.SUCCESS)


admin.site.unregister([User, Group])


@admin.register(User)
class CheckedUserAdmin(CheckedAdmin, UserAdmin):  # type: ignore[type-arg]
    """Django's users."""

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return what a deletion removes: the tokens of a user too, which alone nobody deletes."""
        removed, counts, lacking, protected = super().get_deleted_objects(objs, request)
        return removed, counts, lacking - {ApiToken._meta.verbose_name}, protected

    @method_decorator(csrf_protect)
    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        """Ask, or remove the account: not in one transaction, which would lock all of its links."""
        response: HttpResponse = self._delete_view(request, object_id, extra_context)  # type: ignore[attr-defined]
        return response

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        """Remove an account, and leave its links to nobody."""
        owners.remove(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        """Remove accounts, one after the other."""
        for account in queryset:
            owners.remove(account)


@admin.register(Group)
class CheckedGroupAdmin(CheckedAdmin, GroupAdmin):
    """Django's groups."""
