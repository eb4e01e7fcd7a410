"""What PostgreSQL is asked and told, besides what the processes send."""

WHO_WAITS = """
    SELECT pid, extract(epoch FROM clock_timestamp() - waitstart)::float8, pg_blocking_pids(pid)
    FROM pg_locks WHERE NOT granted AND pid = ANY(%(pids)s)
    UNION ALL
    SELECT pid, NULL, pg_safe_snapshot_blocking_pids(pid) FROM unnest(%(pids)s::int[]) AS pid
"""

NOW = "SELECT clock_timestamp()::text"
STRANGERS = """
    SELECT DISTINCT application_name FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend'
        AND pid != pg_backend_pid() AND pid != ALL(%(pids)s)
        AND query_start >= %(since)s::timestamptz
"""  # the sessions that are nobody's, and have sent something
IDLE_SINCE = "SELECT pid, state_change FROM pg_stat_activity WHERE pid = ANY(%(pids)s)"
HOLDS_ADVISORY_LOCKS = (
    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
)
OPEN_SESSIONS = "SELECT pid FROM pg_stat_activity WHERE pid = ANY(%(pids)s)"
TERMINATE = "SELECT pg_terminate_backend(pid) FROM unnest(%(pids)s::int[]) AS pid WHERE pid > 0"
CANCEL = "SELECT pg_cancel_backend(%(pid)s)"
CLEAR_SNAPSHOT = "SELECT pg_stat_clear_snapshot()"
SET = "SELECT set_config(%(name)s, %(value)s, false)"

NO_TIMEOUTS = """
    SELECT set_config(name, '0', false) FROM pg_settings
    WHERE name IN ('transaction_timeout', 'idle_session_timeout')
"""  # which not every version of PostgreSQL has

# Makes the script that runs after each schedule: all back to how the session is now. What it has
# counted of the tables it wrote is reported, which tells whoever puts rows back where to look.
NEW_SESSION = """
    SELECT 'RESET SESSION AUTHORIZATION; RESET ALL; SELECT pg_advisory_unlock_all(); CLOSE ALL; '
        || 'UNLISTEN *; DEALLOCATE ALL; DISCARD TEMP; DISCARD SEQUENCES; '
        || 'SELECT pg_stat_force_next_flush(); '
        || format('SELECT set_config(''role'', %L, false); ', current_setting('role'))
        || coalesce(string_agg(format('SELECT set_config(%L, %L, false)', name, setting), '; '), '')
    FROM pg_settings WHERE source = 'session' AND name NOT IN
        ('transaction_isolation', 'transaction_read_only', 'transaction_deferrable')
"""

# What a name can stand for besides a plain table: something that a statement does not show.
SPECIAL_NAMES = """
    SELECT lower(proname), 'function', ''
    FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
        JOIN pg_language ON pg_language.oid = prolang
    WHERE nspname NOT IN ('pg_catalog', 'information_schema')
        AND (provolatile = 'v' OR lanname NOT IN ('c', 'internal'))
    UNION
    SELECT lower(relname), 'relation', ''
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
        AND (relkind IN ('v', 'm', 'f', 'S') OR relrowsecurity OR relhasrules)
    UNION
    SELECT lower(relname), 'trigger', string_agg(tgname, ', ' ORDER BY tgname)
    FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
    WHERE NOT tgisinternal GROUP BY relname
"""
