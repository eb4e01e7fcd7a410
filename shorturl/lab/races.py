"""The catalogue of races, in the order of the story."""

from shorturl.lab import creating_races, resolving_races
from shorturl.lab.race import Race

RACES: dict[str, Race] = {
    race.name: race for race in (*creating_races.RACES, *resolving_races.RACES)
}
