"""The names that decide what a statement does: keywords, and functions of PostgreSQL."""

import re


def _names(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


SYSTEM_COLUMNS = _names("xmin xmax cmin cmax ctid tableoid")
# Which of two processes reads the clock first shows in what they read.
CLOCKS = _names("current_timestamp current_time current_date localtime localtimestamp")
# The time at which the transaction began.
TRANSACTION_CLOCKS = CLOCKS | {"now", "transaction_timestamp"}
# What may stand before a parenthesis without being the name of a function.
KEYWORDS = _names(
    """
    and or not in exists any all some case when then else as on where having select from join
    by limit offset union except intersect using lateral values set returning with distinct
    over filter group order between like ilike is array row conflict key materialized
    """
)
# Statements by their first words: queries, those that do the same with their COMMIT in one step, as
# they look at nothing that others write, those that define something, and those of transactions.
QUERIES = _names("SELECT WITH VALUES TABLE EXPLAIN")
WITHOUT_COMMIT = {"", "ROLLBACK TO"} | _names(
    """
    ABORT BEGIN CHECKPOINT CLOSE COMMIT DEALLOCATE DISCARD END FETCH LISTEN LOAD LOCK MOVE NOTIFY
    PREPARE RELEASE RESET ROLLBACK SAVEPOINT SET SHOW START UNLISTEN
    """
)
DEFINITIONS = _names("CREATE ALTER DROP GRANT REVOKE COMMENT SECURITY IMPORT REFRESH REINDEX")
CONTROL = _names("BEGIN START COMMIT END ROLLBACK SAVEPOINT RELEASE SET")
# Functions of PostgreSQL that read their arguments, and nothing else of the database.
PURE = _names(
    """
    count sum avg min max coalesce nullif greatest least lower upper length char_length
    substring substr trim btrim ltrim rtrim left right replace concat concat_ws abs round ceil
    ceiling floor mod power sqrt sign extract date_trunc date_part to_char to_date
    to_timestamp make_interval make_date cast position strpos array_agg string_agg
    json_agg jsonb_agg bool_and bool_or every row_number rank dense_rank lag lead first_value
    last_value json_build_object jsonb_build_object to_json to_jsonb row_to_json unnest
    array_length cardinality md5 int integer bigint numeric varchar char text date timestamp
    interval
    """
)
# Those that do more, and nothing that a COMMIT would make visible or let go of.
NOT_TRANSACTIONAL = _names(
    """
    nextval currval lastval setval pg_get_serial_sequence pg_advisory_lock pg_advisory_unlock
    pg_advisory_lock_shared pg_advisory_unlock_shared pg_advisory_unlock_all
    pg_try_advisory_lock pg_try_advisory_lock_shared set_config current_setting pg_sleep
    pg_backend_pid random version pg_cancel_backend pg_terminate_backend pg_blocking_pids
    generate_series gen_random_uuid clock_timestamp statement_timestamp transaction_timestamp
    now age
    hashtext hashtextextended pg_typeof pg_notify current_database current_schema
    """
)
