"""Strategies × races: the violating schedules of each pair, out of all, as Markdown."""

from lab.exploring.jobs import Job
from lab.markdown import table
from lab.races import OPERATIONS
from lab.races.counts import COUNTS
from lab.races.race_definition import Race


def markdown(processes: int | None = None) -> str:
    """Return a table for each operation, with the counts of lab/races/counts.json.

    By default each race has its smallest number of processes. With `processes`, only the races that
    are explored with this number are shown.
    """
    tables = []
    for operation, (_, strategies, every) in OPERATIONS.items():
        races = [race for race in every if processes in (None, *race.counts)]
        if races:
            rows = {
                each: [_cell(race, each.name, processes) for race in races]
                for each in strategies.values()
                if any(each.name in race.strategies for race in races)
            }
            lines = [[each.name, *cells] for each, cells in rows.items()]
            tables.append(table([operation, *(race.name for race in races)], lines))
            tables += [f"{each.name}: {each.note}" for each in rows if each.note]
    return "\n\n".join(tables)


def _cell(race: Race, strategy: str, processes: int | None) -> str:
    if strategy not in race.strategies:
        return "–"
    job = Job(race, race.strategies[strategy], processes or race.counts[0])
    count = COUNTS.get(str(job))
    if count is None:
        return "…"
    return f"**{count}**" if count.violating else str(count)
