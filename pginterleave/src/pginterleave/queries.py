"""What PostgreSQL is asked and told, besides what the processes send."""

WHO_WAITS = """
    SELECT pid, extract(epoch FROM clock_timestamp() - waitstart)::float8, pg_blocking_pids(pid)
    FROM pg_locks WHERE NOT granted AND pid = ANY(%(pids)s)
    UNION ALL
    SELECT pid, NULL, pg_safe_snapshot_blocking_pids(pid) FROM unnest(%(pids)s::int[]) AS pid
"""

IDLE_SINCE = "SELECT pid, state_change FROM pg_stat_activity WHERE pid = ANY(%(pids)s)"
HOLDS_ADVISORY_LOCKS = (
    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
)
OPEN_SESSIONS = "SELECT pid FROM pg_stat_activity WHERE pid = ANY(%(pids)s)"
TERMINATE = "SELECT pg_terminate_backend(pid) FROM unnest(%(pids)s::int[]) AS pid WHERE pid > 0"
CLEAR_SNAPSHOT = "SELECT pg_stat_clear_snapshot()"
SET = "SELECT set_config(%(name)s, %(value)s, false)"

NO_TIMEOUTS = """
    SELECT set_config(name, '0', false) FROM pg_settings
    WHERE name IN ('transaction_timeout', 'idle_session_timeout')
"""  # which not every version of PostgreSQL has

# Makes the script that runs after each schedule: all back to how the session is now.
NEW_SESSION = """
    SELECT 'RESET SESSION AUTHORIZATION; RESET ALL; SELECT pg_advisory_unlock_all(); CLOSE ALL; '
        || 'UNLISTEN *; DEALLOCATE ALL; DISCARD TEMP; DISCARD SEQUENCES; '
        || format('SELECT set_config(''role'', %L, false); ', current_setting('role'))
        || coalesce(string_agg(format('SELECT set_config(%L, %L, false)', name, setting), '; '), '')
    FROM pg_settings WHERE source = 'session' AND name NOT IN
        ('transaction_isolation', 'transaction_read_only', 'transaction_deferrable')
"""
