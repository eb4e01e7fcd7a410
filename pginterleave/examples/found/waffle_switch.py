"""django-waffle: two requests ask for a switch that is not there yet."""

from waffle import switch_is_active
from waffle.models import Switch

from .finding import Finding


def ask() -> bool:
    return switch_is_active("new-checkout")


def one_switch(outcomes: object) -> str:
    switches = Switch.objects.count()
    return "" if switches == 1 else f"{switches} switches"


FINDING = Finding(
    package="django-waffle",
    version="5.0.0",
    operation="`switch_is_active()` of a missing switch, twice",
    breaks=False,
    says="With WAFFLE_CREATE_MISSING_SWITCHES it is made by get_or_create, and its name is unique. "
    "Looked at without a cache.",
    setup=lambda: Switch.objects.all().delete(),
    processes=[ask, ask],
    invariant=one_switch,
)
