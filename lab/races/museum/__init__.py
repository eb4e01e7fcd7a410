"""The race museum: bugs of real projects, each reduced to the minimum on PostgreSQL.

Each file has one bug: the strategies as found and as corrected, their tables, which the set-up
creates again before each schedule, and the story of the bug.
"""

from lab.races.museum import (
    bare_save,
    deactivated_account,
    limited_use,
    next_id_written_back,
    no_unique_constraint,
    null_in_a_unique_key,
    retry_without_a_savepoint,
    row_lock_on_no_row,
)
from lab.races.museum.exhibit import Exhibit

MUSEUM: dict[str, Exhibit] = {
    file.EXHIBIT.name: file.EXHIBIT
    for file in (
        no_unique_constraint,
        null_in_a_unique_key,
        retry_without_a_savepoint,
        next_id_written_back,
        bare_save,
        deactivated_account,
        row_lock_on_no_row,
        limited_use,
    )
}
