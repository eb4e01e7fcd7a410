from django.conf import settings
from django.db import models


class Question(models.Model):
    text = models.CharField(max_length=200)


class Ballot(models.Model):
    question = models.ForeignKey(Question, on_delete=models.CASCADE)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
