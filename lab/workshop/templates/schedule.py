"""Find a schedule in which a hit is lost.

lab/workshop/looks_twice.py resolves a key in three steps: it reads the counter, reads
it again to see that nobody has come in between, and writes. When the two numbers differ it starts
from the top. Two processes do this at once, for the same link. Is that enough?

A schedule is the process of each step, in order: "111222" is process 1 from beginning to end and
then process 2. Write down what each process has read before you have it judged. A process that
starts from the top takes more steps, so some schedules are longer than six.

It is judged the other way round: it passes when a hit is lost.
"""


def schedule() -> str:
    return "111222"
