"""The catalogue of races, in the order of the story, and with those of the museum."""

from lab.catalogue import creating_races, resolving_races
from lab.catalogue.museum import MUSEUM
from lab.catalogue.race_definition import Race

RACES: dict[str, Race] = {
    race.name: race for race in (*creating_races.RACES, *resolving_races.RACES)
}

EVERY_RACE: dict[str, Race] = RACES | {name: exhibit.race for name, exhibit in MUSEUM.items()}
