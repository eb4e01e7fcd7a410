"""Solutions of the exercises: RIGHT ones in unusual styles, and WRONG ones.

Each wrong one shows that a check works, and has a part of the sentence that refuses it.
"""

from django.db import connection

BY_NAME = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


def sql(text, *values):
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        return cursor.fetchall() if cursor.description else []
