"""Find a schedule in which a hit is lost although a process has noticed another.

lab/workshop/looks_twice.py resolves a key in four steps: it reads the counter, reads
it again to see that nobody has come in between, and writes, which PostgreSQL then commits. When the
two numbers differ it starts from the top. Three processes do this at once, for the same link.

That a hit is lost is easy: let all of them look before one of them writes. Find a schedule in which
one of them notices that another has written, starts from the top, and a hit is lost all the same.

A schedule is the process of each step, in order: "111122223333" is process 1 from beginning to end,
then process 2, then process 3. Write down what each process has read before you have it judged. A
process that starts from the top takes more than four steps.

It is judged the other way round: it passes when a hit is lost.
"""


def schedule() -> str:
    return "111122223333"
