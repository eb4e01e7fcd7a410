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
from django.db import DataError, IntegrityError
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect

from shorturl import operations
from shorturl.exceptions import LimitTooLow, TargetBanned
from shorturl.limits import owners
from shorturl.links.validators import shortened
from shorturl.models import ApiToken, LinkState, ShortUrl, ShortUrlQuerySet
from shorturl.pages.forms import LinkForm


class CheckedAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """An admin that answers malformed requests with an error page instead of a 500."""

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Show the whole list if a filter cannot be evaluated; Django does so for some filters."""
        try:
            return super().get_changelist_instance(request)
        except (DataError, ValueError, OverflowError) as error:  # a regex "(", the year 0, a NUL
            raise IncorrectLookupParameters from error

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Let the form lock a chosen account until the COMMIT."""
        if db_field.remote_field.model is User:
            kwargs["queryset"] = User.objects.select_for_update(no_key=True)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def changeform_view(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse a form that was valid when it was checked, and is not any more at the COMMIT."""
        try:
            return super().changeform_view(*args, **kwargs)
        except IntegrityError as error:  # such as a name that another process has just taken
            raise BadRequest(
                "Nothing is saved: something of this form was added or removed meanwhile. "
                "Send it again."
            ) from error

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        try:
            for selected in request.POST.getlist(ACTION_CHECKBOX_NAME):
                self.opts.pk.to_python(selected)
        except ValidationError as error:
            raise BadRequest("The selection contains something that is not an id.") from error
        return super().response_action(request, queryset, *args, **kwargs)


class AdminForm(LinkForm, forms.ModelForm):  # type: ignore[type-arg]
    target_url = forms.CharField(label="Target URL", widget=AdminTextInputWidget)

    def clean_max_hits(self) -> int | None:
        """Compare the limit with the hits that the form shows; save_model() checks later ones."""
        max_hits: int | None = self.cleaned_data["max_hits"]
        if max_hits is not None and max_hits < self.instance.hits:
            raise ValidationError(str(LimitTooLow(max_hits)), code="too_low")
        return max_hits


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state.value, state.value.capitalize()) for state in LinkState]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(state=self.value()) if self.value() else queryset


@admin.register(ShortUrl)
class ShortUrlAdmin(CheckedAdmin):
    form = AdminForm
    fields = (
        *("key", "target_url", "title", "tags", "owner", "max_hits", "expires_at"),
        "forward_query",
        *("hits", "created_at", "deleted_at"),
    )
    raw_id_fields = ("owner",)
    readonly_fields = ("key", "hits", "created_at", "deleted_at")
    list_display = ("key", "state", "hits", "target", "owner", "created_at")
    list_select_related = ("owner",)
    list_filter = (
        StateFilter,
        "created_at",
        ("owner", admin.EmptyFieldListFilter),
        ("max_hits", admin.EmptyFieldListFilter),
    )
    search_fields = ("key", "target_url", "title", "tags", "owner__username")
    search_help_text = "Part of the key, target URL, title, tags or owner's name"
    ordering = ("-id",)
    list_per_page = 50
    # A search does not also count the whole table.
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> ShortUrlQuerySet:
        return ShortUrl.objects.with_state()

    @admin.display
    def state(self, short_url: ShortUrl) -> str:
        return short_url.state

    @admin.display(description="target URL", ordering="target_url")
    def target(self, short_url: ShortUrl) -> str:
        return shortened(short_url.target_url, 80)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False  # only operations.create() handles taken keys

    def has_change_permission(self, request: HttpRequest, obj: ShortUrl | None = None) -> bool:
        return super().has_change_permission(request, obj) and not (obj and obj.deleted_at)

    def has_delete_permission(self, request: HttpRequest, obj: ShortUrl | None = None) -> bool:
        return super().has_delete_permission(request, obj) and not (obj and obj.deleted_at)

    def get_form(
        self, request: HttpRequest, obj: ShortUrl | None = None, change: bool = False, **kwargs: Any
    ) -> type[forms.ModelForm[ShortUrl]]:
        form = super().get_form(request, obj, change=change, **kwargs)
        form.own_host = request.get_host()  # type: ignore[attr-defined]
        return form

    def save_model(self, request: HttpRequest, obj: ShortUrl, form: Any, change: bool) -> None:
        """Write only the changed fields: save() would lose hits counted since, or a deletion."""
        changes = {name: form.cleaned_data[name] for name in form.changed_data}
        try:
            links = ShortUrl.objects.filter(pk=obj.pk, deleted_at=None)
            if changes and not operations.change(links, **changes):
                raise BadRequest(f"/{obj.key} was deleted meanwhile, and is not changed.")
        except (LimitTooLow, TargetBanned) as error:  # which the form could not know
            raise BadRequest(str(error)) from error

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        keys = [str(short_url) for short_url in objs if short_url.deleted_at is None]
        return keys, {self.opts.verbose_name_plural: len(keys)}, set(), []  # only these


SCOPES = tuple(f"can_{scope}" for scope in ApiToken.SCOPES)


@admin.register(ApiToken)
class ApiTokenAdmin(CheckedAdmin):
    fields = ("name", "user", *SCOPES, "prefix", "created_at", "revoked_at")
    readonly_fields = ("prefix", "created_at", "revoked_at")
    raw_id_fields = ("user",)
    list_display = ("name", "user", "may", "prefix", "created_at", "revoked_at")
    list_select_related = ("user",)
    list_filter = (
        ("revoked_at", admin.EmptyFieldListFilter),
        ("user", admin.EmptyFieldListFilter),
        *SCOPES,
    )
    search_help_text = "Part of the name, of the beginning or of the user's name"
    search_fields = ("name", "prefix", "user__username")
    ordering = ("-id",)
    actions = ("revoke",)

    def get_fields(self, request: HttpRequest, obj: ApiToken | None = None) -> Any:
        return self.fields if obj else ("name", "user", *SCOPES)

    @admin.display(description="scopes")
    def may(self, token: ApiToken) -> str:
        return ", ".join(token.scopes)

    def has_delete_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        return False  # tokens are revoked, so that their rows show when

    def save_model(self, request: HttpRequest, obj: ApiToken, form: Any, change: bool) -> None:
        """Save a new token, or the changed fields of an old one: it may be revoked meanwhile."""
        if change:
            obj.save(update_fields=form.changed_data)
        else:
            obj.draw()
            obj.save()

    def response_add(
        self, request: HttpRequest, obj: ApiToken, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the token at once: a message after a redirect would be stored in between."""
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "The new API token",
            "token": obj,
        }
        return TemplateResponse(request, "admin/shorturl/apitoken/added.html", context)

    @admin.action(description="Revoke the selected API tokens", permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiToken]) -> None:
        count = queryset.filter(revoked_at=None).update(revoked_at=Now())
        self.message_user(request, f"Tokens revoked: {count}.", messages.SUCCESS)


admin.site.unregister([User, Group])
# Beside it a list of short URLs would not fit into a window of 1280 pixels.
admin.site.enable_nav_sidebar = False


@admin.register(User)
class CheckedUserAdmin(CheckedAdmin, UserAdmin):  # type: ignore[type-arg]
    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        # A user's tokens are removed, too, and take no permission.
        removed, counts, lacking, protected = super().get_deleted_objects(objs, request)
        return removed, counts, lacking - {ApiToken._meta.verbose_name}, protected

    @method_decorator(csrf_protect)
    def delete_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        """Ask, or remove the account; Django's transaction would lock all of its links."""
        # pginterleave: alone - Django adds a new row to its log; remove() has its own transactions
        response: HttpResponse = self._delete_view(request, object_id, extra_context)  # type: ignore[attr-defined]
        return response

    def delete_model(self, request: HttpRequest, obj: User) -> None:
        owners.remove(obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[User]) -> None:
        for account in queryset:
            owners.remove(account)


@admin.register(Group)
class CheckedGroupAdmin(CheckedAdmin, GroupAdmin):
    pass
