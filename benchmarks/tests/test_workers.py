"""The table of workers and threads."""

from dataclasses import replace

from benchmarks import workers
from benchmarks.measurements import Reading
from benchmarks.wrk import Sample

SAMPLE = Sample(requests=1, per_second=0, p50=1, p99=1, p999=1, errors={})


def test_a_service_is_compared_with_the_first_one_within_each_round() -> None:
    part = workers.plan()
    (subjects,) = part.groups
    assert {"WORKERS": "2", "THREADS": "12"}.items() <= subjects[-2].environment.items()
    for number, one in enumerate(subjects, 1):
        for speed in (100, 1, 10):  # of the machine, in three rounds
            for load in one.loads:
                sample = replace(SAMPLE, per_second=number * speed)
                part.found[one.name, load].readings.append(Reading(sample, worker=1))
    _, _, *lines = workers.table(part).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[0] == ["`update_returning`", "4 × 4", *["1.00"] * 4]
    assert cells[1] == ["`update_returning`", "2 × 16", *["2.00"] * 4]
    assert cells[-1] == ["`combined`", "2 × 16", *["6.00"] * 4]
