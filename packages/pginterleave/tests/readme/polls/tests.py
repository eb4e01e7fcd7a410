from django.contrib.auth.models import User
from django.test import TestCase

from .models import Ballot, Question


class VoteTests(TestCase):
    def test_vote(self) -> None:
        question = Question.objects.create(text="What's new?")
        self.client.force_login(User.objects.create(username="ada"))
        self.client.post(f"/{question.pk}/vote/")
        assert Ballot.objects.count() == 1
