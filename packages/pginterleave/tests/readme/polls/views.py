"""The README's race: two clicks of one person count as two votes."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST

from .models import Ballot


@login_required
@require_POST
def vote(request: HttpRequest, question_id: int) -> HttpResponse:
    if Ballot.objects.filter(question_id=question_id, user=request.user).exists():
        return HttpResponse("You have voted.")
    Ballot.objects.create(question_id=question_id, user=request.user)
    return HttpResponse("Thank you.")
