"""The SQL that the explorer sends, besides that of the processes."""

BLOCKERS = """
    SELECT pid, extract(epoch FROM clock_timestamp() - waitstart)::float8, pg_blocking_pids(pid)
    FROM pg_locks WHERE NOT granted AND pid = ANY(%(pids)s)
    UNION ALL
    SELECT pid, NULL, pg_safe_snapshot_blocking_pids(pid) FROM unnest(%(pids)s::int[]) AS pid
"""

# The time, and which of the other sessions are open; the next query sees new statistics. The view
# pg_stat_activity takes three times as long as the function below it.
NOW = """
    SELECT clock_timestamp()::text,
        ARRAY(SELECT pid FROM pg_stat_get_activity(NULL) WHERE pid = ANY(%(others)s)),
        pg_stat_clear_snapshot()::text
"""
STRANGERS = """
    WITH sessions AS MATERIALIZED (SELECT * FROM pg_stat_get_activity(NULL))
    SELECT DISTINCT application_name FROM sessions
    WHERE (pid = ANY(%(others)s)
            OR datid = (SELECT oid FROM pg_database WHERE datname = current_database()))
        AND backend_type = 'client backend'
        AND pid != pg_backend_pid() AND pid != ALL(%(pids)s)
        AND query_start >= %(since)s::timestamptz
    UNION ALL
    SELECT NULL FROM unnest(%(others)s::int[]) AS other
    WHERE other NOT IN (SELECT pid FROM sessions)
"""  # the names of other sessions that have sent something; NULL for one that has ended
IDLE_SINCE = "SELECT pid, state_change FROM pg_stat_activity WHERE pid = ANY(%(pids)s)"
ADVISORY_LOCKS = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
OPEN_SESSIONS = "SELECT pid FROM pg_stat_activity WHERE pid = ANY(%(pids)s)"
TERMINATE = "SELECT pg_terminate_backend(pid) FROM unnest(%(pids)s::int[]) AS pid WHERE pid > 0"
CANCEL = "SELECT pg_cancel_backend(%(pid)s)"
CLEAR_SNAPSHOT = "SELECT pg_stat_clear_snapshot()"
SET = "SELECT set_config(%(name)s, %(value)s, false)"

NO_TIMEOUTS = """
    SELECT set_config(name, '0', false) FROM pg_settings
    WHERE name IN ('transaction_timeout', 'idle_session_timeout')
"""  # not every version of PostgreSQL has both

# Returns the script that resets the session after each schedule to its present state, and reports
# how many rows it has written: `rows.py` finds the changed tables by that.
RESET_SCRIPT = """
    SELECT 'RESET SESSION AUTHORIZATION; RESET ALL; SELECT pg_advisory_unlock_all(); CLOSE ALL; '
        || 'UNLISTEN *; DEALLOCATE ALL; DISCARD TEMP; DISCARD SEQUENCES; '
        || 'SELECT pg_stat_force_next_flush(); '
        || format('SELECT set_config(''role'', %L, false); ', current_setting('role'))
        || coalesce(string_agg(format('SELECT set_config(%L, %L, false)', name, setting), '; '), '')
    FROM pg_settings WHERE source = 'session' AND name NOT IN
        ('transaction_isolation', 'transaction_read_only', 'transaction_deferrable')
"""
