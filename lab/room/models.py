"""The question that a room is asked, with its votes: one row, and none when no room is open."""

from typing import ClassVar

from django.db import connection, models


class Question(models.Model):
    """Which process goes next in the scheduler of `cell` after the steps `taken`.

    `votes` has the order that each phone has voted for, by the cookie of the phone. The table is
    unlogged: no vote has to outlive a crash, and none waits for the disk.
    """

    ONLY_ID = 1

    cell = models.TextField()
    taken = models.TextField()
    votes = models.JSONField(default=dict)

    objects: ClassVar[models.Manager["Question"]] = models.Manager()

    def __str__(self) -> str:
        return f"{self.cell} after {self.taken or 'no step'}: {len(self.votes)} votes"


ASK = """
INSERT INTO room_question (id, cell, taken, votes) VALUES (%s, %s, %s, '{}')
ON CONFLICT (id) DO UPDATE SET cell = EXCLUDED.cell, taken = EXCLUDED.taken, votes = '{}'
 WHERE %s OR (room_question.cell, room_question.taken) <> (EXCLUDED.cell, EXCLUDED.taken)
"""
VOTE = """
UPDATE room_question SET votes = votes || jsonb_build_object(%s::text, %s::text)
 WHERE cell = %s AND taken = %s
"""


def ask(cell: str, taken: str, *, is_new: bool = False) -> None:
    """Ask the next question, without votes.

    If it is asked already, as by a double click, it keeps its votes, unless the room `is_new`.
    """
    with connection.cursor() as cursor:
        cursor.execute(ASK, [Question.ONLY_ID, cell, taken, is_new])


def vote(phone: str, order: str, *, cell: str, taken: str) -> bool:
    """Set the vote of a phone for an order; return False if the question is no longer asked.

    The order "121" after the steps "12" is a vote for process 1.

    Why nothing can go wrong: the UPDATE locks the row, and then decides by it. So it adds to the
    votes that are there, a phone has one of them, and none is for the question before.
    """
    with connection.cursor() as cursor:
        cursor.execute(VOTE, [phone, order, cell, taken])
        return bool(cursor.rowcount == 1)


def end() -> None:
    Question.objects.all().delete()
