"""The operations as load tests measure them: script, strategies, and the words of the reports.

The scripts know the service by HTTP only, and Locust needs the strategies before it has a host. So
they are listed here. A test compares them with the service's own tables.
"""

from typing import NamedTuple

# The service's own paths, such as /KEY. Its statement counts all hits that wait.
SERVICE = "service"


class MeasuredOperation(NamedTuple):
    """An operation: the script that makes it race, and the words of its reports.

    `unit` names what is measured, `lost` the harm of a race, and `doubled` what took effect twice.
    `names` are the strategies in the order of the service's table. The first one is the script's
    default. `wrong` are those that the race harms, if the service's table does not say so. With
    `as_served` the script also runs with SERVICE in the place of a strategy.
    """

    title: str
    unit: str
    lost: str
    doubled: str
    script: str
    names: str = ""
    wrong: tuple[str, ...] = ()
    as_served: bool = False

    @property
    def strategies(self) -> list[str]:
        """What the script can run, in the order of the report."""
        return [SERVICE, *self.names.split()] if self.as_served else self.names.split()

    @property
    def default(self) -> str:
        return self.names.partition(" ")[0]


RESOLVING = (
    "naive atomic_only select_for_update f_expression f_expression_full_save update_returning "
    "compare_and_swap repeatable_read advisory_lock combined slotted_counter append_only in_memory"
)
WRONG_RESOLVING = ("naive", "atomic_only", "f_expression_full_save", "in_memory")

# A row for each operation of the service, one for a limit, and one for the whole service.
# fmt: off
OPERATIONS = {
    "creating": MeasuredOperation(
        "To create a short URL", "creates", "creates lost", "links made twice", "toctou",
        "naive check_first table_lock forgiveness savepoint on_conflict get_or_create "
        "timestamp_key advisory_lock permuted_sequence"),
    "resolving": MeasuredOperation(
        "To resolve a key and count the hit",
        "redirects", "hits lost", "hits counted twice", "lost_update", RESOLVING,
        as_served=True),
    "reusing": MeasuredOperation(
        "To reuse a link to the same target",
        "requests", "links too many", "links without an answer", "same_target",
        "find_then_create get_or_create on_conflict advisory_lock serializable"),
    "idempotency": MeasuredOperation(
        "To answer a repeated request once",
        "answers", "links made again", "links without an answer", "repeated_request",
        "look_up_then_store insert_first advisory_lock"),
    "last_use": MeasuredOperation(
        "To use a link no more often than its limit says",
        "redirects", "uses oversold or failed", "uses counted twice", "last_use", RESOLVING,
        wrong=(*WRONG_RESOLVING, "f_expression", "slotted_counter", "append_only"),
        as_served=True),
    "spending": MeasuredOperation(
        "To spend a quota on a create",
        "creates", "links beyond the quota", "links made twice", "last_link",
        "count_then_insert read_modify_write f_expression conditional_update row_lock "
        "reservation"),
    "recording_visits": MeasuredOperation(
        "To record a visit with its hit",
        "redirects", "visits lost or too many", "hits counted twice", "same_hour",
        "get_then_create second_transaction upsert combined",
        as_served=True),
    "service": MeasuredOperation(
        "The service", "requests", "requests lost", "counted or made twice", "hot_and_cold"),
}
# fmt: on
# Strategies that are wrong only in a crash, and the number of workers that are killed in a run. One
# kill may miss the wrong moment: with one instead of five, second_transaction lost nothing in 3 of
# 20 runs; with two instead of three, in_memory lost nothing in 2 of 16.
KILLS = {"in_memory": 3, "second_transaction": 5}
PATIENCE = 3.0  # seconds after which these have written all they can: the rest is lost
