"""What a load test of visits calls: every way to record one with its hit, and to roll them up."""

from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET, require_POST

from lab.load import key_spaces
from lab.load.inputs import for_programs, key_space, own, strategy_named
from lab.load.own_visits import visits_of
from lab.load.views import failure, redirect
from shorturl.api.error_responses import ApiError
from shorturl.links.validators import shortened
from shorturl.models import VisitCount
from shorturl.outages import driver_error
from shorturl.strategies import recording_visits, rolling_up
from shorturl.visits.classification import visit_of

HOUR, DAY = VisitCount.Unit.HOUR, VisitCount.Unit.DAY
ALL = datetime(9999, 1, 1, tzinfo=UTC)  # this hour, too, in which visits are recorded meanwhile
# A deadlock, and a lock that was not free in time, which is the limit that comes first here:
# https://www.postgresql.org/docs/18/errcodes-appendix.html
IN_THE_WAY = ("40P01", "55P03")


@for_programs
@require_GET
def record(request: HttpRequest, strategy: str, key: str) -> HttpResponse:
    """Redirect to the target of `key`, count the hit and record the visit by `strategy`.

    The visit is of the kind that the request's headers say, and X-Hits is as in resolve().
    """
    chosen = strategy_named(strategy, recording_visits.STRATEGIES)
    with visits_of(own(key)):
        return redirect(key, partial(chosen.function, visit=visit_of(request.META)), chosen)


@for_programs
@require_POST
def roll_up(request: HttpRequest, strategy: str, name: str) -> HttpResponse:
    """Roll the visits of a space up from hours into days by `strategy`; say how many rows it took.

    409 where PostgreSQL has ended it, as another one was in its way: nothing was done.
    """
    chosen = strategy_named(strategy, rolling_up.STRATEGIES)
    space = key_space(name, by=key_spaces.remembered)
    if not space.own_visits:
        raise ApiError(
            HTTPStatus.CONFLICT,
            f"{shortened(name)!r} has no visits of its own, and a roll-up takes those of all links:"
            ' open a space with "own_visits": true.',
        )
    try:
        with visits_of(space):
            taken = chosen.function(HOUR, DAY, ALL)
    except Exception as error:  # whatever it is, it is what this strategy does
        if any(driver_error(error, code) for code in IN_THE_WAY):
            detail = "Another roll-up was in the way, and nothing was done."
            raise ApiError(HTTPStatus.CONFLICT, detail) from error
        return failure(error, chosen)
    return JsonResponse({"taken": taken})
