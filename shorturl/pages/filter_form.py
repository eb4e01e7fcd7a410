"""The form that finds one's links again; it is sent by GET."""

from django import forms

from shorturl.links.overview import LISTS
from shorturl.models import LinkState
from shorturl.pages.forms import AS_TYPED, TagsField

STATES = [LinkState.LIVE, LinkState.EXPIRED, LinkState.USED_UP]
ORDERS = {
    "": ("Newest first", "-id"),
    "oldest": ("Oldest first", "id"),
    "key": ("By key", "key"),
}


class FilterForm(forms.Form):
    """The filters and the order of a list of links; every field is optional."""

    q = forms.CharField(
        label="Part of the key, target or title",
        required=False,
        widget=forms.TextInput(attrs={"type": "search", **AS_TYPED}),
    )
    tags = TagsField(
        label="Tags",
        required=False,
        widget=forms.TextInput(attrs={"list": "used-tags", **AS_TYPED}),
    )
    state = forms.ChoiceField(
        label="State",
        required=False,
        choices=[("", "Any"), *((state.value, state.value.capitalize()) for state in STATES)],
        error_messages={"invalid_choice": "Choose live, expired or used up."},
    )
    show = forms.ChoiceField(
        label="Show",
        required=False,
        choices=[
            *((name, title) for name, (title, _) in ORDERS.items()),
            *((name, each.title) for name, each in LISTS.items()),
        ],
        error_messages={"invalid_choice": "Choose oldest, key, followed, fading or never."},
    )
