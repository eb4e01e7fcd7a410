"""Find a schedule in which a hit is lost although a process has noticed the write of another.

resolve_and_look_twice(), below, resolves a key in four steps. It reads the counter, reads it again
to check that no other process has written, and writes; the fourth step is the COMMIT. If the two
numbers differ, it starts again. Three processes do this at once, for the same link.

A hit is lost if all processes read before one of them writes. Find a schedule in which one process
notices the write of another and starts again, and a hit is lost nevertheless.

A schedule lists the process of each step, in order: "111122223333" is all of process 1, then
process 2, then process 3. A process that starts again takes more than four steps. Write down what
each process has read before you run `pytest lab/exercises/schedule.py`.
"""

from lab.exercises import judging as judge
from pginterleave import ImpossibleSchedule, run_schedule
from pginterleave.pytest_plugin import Interleave
from shorturl.models import ShortUrl


def schedule() -> str:
    return "111122223333"


# The test. Do not change anything below.


def resolve_and_look_twice(key: str = "a") -> ShortUrl:
    for _ in range(10):
        short_url = ShortUrl.objects.get(key=key)
        if ShortUrl.objects.get(key=key).hits == short_url.hits:
            short_url.hits += 1
            short_url.save(update_fields=["hits"])
            return short_url
    raise ShortUrl.Contended(key, 10)


def test_a_hit_is_lost_though_a_process_has_noticed_a_write(interleave: Interleave) -> None:
    """This test passes if a hit is lost."""

    def setup() -> None:
        ShortUrl.objects.all().erase()
        judge.links()()

    def lost(_: object) -> str:
        hits = judge.rows()["a"]["hits"]
        return f"hits = {hits}, expected 3" if hits != 3 else ""

    order = str(schedule())
    processes = [resolve_and_look_twice] * 3
    try:
        shown = run_schedule(order, processes, setup=setup, invariant=lost)
    except ImpossibleSchedule as error:
        wrong = str(error)
    else:
        if not shown.violation:
            judge.refuse(f"{order} loses no hit. Look for one that does.", shown.draw())
        if any(order.count(str(process)) > 4 for process in (1, 2, 3)):
            return
        sentence = f"{order} loses a hit ({shown.violation}), and no process has noticed a write."
        judge.refuse(sentence, shown.draw())
    judge.refuse(f"{order!r} is not a schedule of this race: {wrong}")
