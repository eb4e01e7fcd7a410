"""Solutions of the exercises: RIGHT ones, and WRONG ones with the sentence that refuses them."""

from django.db import connection

BY_NAME = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


def sql(text, *values):
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        return cursor.fetchall() if cursor.description else []


def add_one(link):
    link.hits += 1
    link.save(update_fields=["hits"])
    return link
