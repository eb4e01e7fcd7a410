"""Facts about a statement from its text: its kind, its tables, its calls, whether it writes."""

import functools
import re
from collections.abc import Set

from pginterleave.sql.quoting import without_comments, without_constants, without_quoted


def _names(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


SYSTEM_COLUMNS = _names("xmin xmax cmin cmax ctid tableoid")
# The results of these depend on which process reads the clock first.
CLOCKS = _names("current_timestamp current_time current_date localtime localtimestamp")
# The time at which the transaction began.
TRANSACTION_CLOCKS = CLOCKS | {"now", "transaction_timestamp"}
# Words before a parenthesis that are not the name of a function.
KEYWORDS = _names(
    """
    and or not in exists any all some case when then else as on where having select from join
    by limit offset union except intersect using lateral values set returning with distinct
    over filter group order between like ilike is array row conflict key materialized
    """
)
# Statements by their first words: queries; statements whose COMMIT need not be a separate step;
# definitions; transaction control.
QUERIES = _names("SELECT WITH VALUES TABLE EXPLAIN")
WITHOUT_COMMIT = {"", "ROLLBACK TO"} | _names(
    """
    ABORT BEGIN CHECKPOINT CLOSE COMMIT DEALLOCATE DISCARD END FETCH LISTEN LOAD LOCK MOVE NOTIFY
    PREPARE RELEASE RESET ROLLBACK SAVEPOINT SET SHOW START UNLISTEN
    """
)
DEFINITIONS = _names("CREATE ALTER DROP GRANT REVOKE COMMENT SECURITY IMPORT REFRESH REINDEX")
CONTROL = _names("BEGIN START COMMIT END ROLLBACK SAVEPOINT RELEASE SET")
WRITES = _names("insert update delete merge copy truncate execute into")
# Functions of PostgreSQL that read nothing but their arguments.
PURE = _names(
    """
    count sum avg min max coalesce nullif greatest least lower upper length char_length
    substring substr trim btrim ltrim rtrim left right replace concat concat_ws abs round ceil
    ceiling floor mod power sqrt sign extract date_trunc date_part to_char to_date
    to_timestamp make_interval make_date cast position strpos array_agg string_agg
    json_agg jsonb_agg bool_and bool_or every row_number rank dense_rank lag lead first_value
    last_value json_build_object jsonb_build_object to_json to_jsonb row_to_json unnest
    array_length jsonb_array_length cardinality md5 int integer bigint numeric varchar char text
    date timestamp interval
    """
)
# Functions with effects that do not wait for a COMMIT: it makes none visible, and releases none.
NOT_TRANSACTIONAL = _names(
    """
    nextval currval lastval setval pg_get_serial_sequence pg_advisory_lock pg_advisory_unlock
    pg_advisory_lock_shared pg_advisory_unlock_shared pg_advisory_unlock_all
    pg_try_advisory_lock pg_try_advisory_lock_shared set_config current_setting pg_sleep
    pg_backend_pid random version pg_cancel_backend pg_terminate_backend pg_blocking_pids
    generate_series gen_random_uuid clock_timestamp statement_timestamp transaction_timestamp
    now age hashtext hashtextextended pg_typeof pg_notify current_database current_schema
    """
)


_ONLY_BEGIN = re.compile(r"\s*(BEGIN|START\s+TRANSACTION)\b[^;]*;?\s*", re.IGNORECASE)
_STATEMENT = re.compile(r"(?is)(?:--[^\n\r]*[\n\r]|[\s(;])*(rollback\s+to|\w+)")
_SEVERAL = re.compile(r";\s*\S")
SETS_ISOLATION = re.compile(r"SET\s+TRANSACTION\s+ISOLATION\s+LEVEL[\s\w]+;?\s*", re.IGNORECASE)
_LOCKS_OR_WRITES = re.compile(r"\b(FOR|INTO|INSERT|UPDATE|DELETE|MERGE)\b", re.IGNORECASE)
_CALL = re.compile(r'([\w.]+|"[^"]*")?\s*\(')
_ROW_LOCK = re.compile(r"\bfor\s+(no\s+key\s+|key\s+)?(update|share)\b")
_TABLE = re.compile(r'\b(?:update|from|join|into|using)\s+(?:only\s+)?"?(\w+)')
_WRITTEN_TABLE = re.compile(r'\b(?:update|into|delete\s+from)\s+(?:only\s+)?"?(\w+)')
# What locks whole tables, in the order in which a statement names them; and the table of a COPY.
_TABLES = re.compile(
    r"^\W*(?:lock|truncate|drop\s+table(?:\s+if\s+exists)?)\s+(?:table\s+)?((?:only\s+)?[\w.\"*]+(?:\s*,\s*(?:only\s+)?[\w.\"*]+)*)"
)
_COPIED = re.compile(r'^\W*copy\s+(?:[\w"]+\.)?"?(\w+)"?\s*(?:\([^)]*\))?\s*from\b')
_READ_TABLE = re.compile(r'\b(?:from|join|using)\s+(?:only\s+)?"?(\w+)')
# Words that are found like a table: FOR UPDATE SKIP, ON CONFLICT DO UPDATE SET, FROM LATERAL.
_NO_TABLES = frozenset(("of", "skip", "nowait", "set", "lateral", "limit"))
_INTO = re.compile(r'\binto\s+[\w."]+\s*\(')  # the columns of an INSERT
# Statements that leave a custom setting or notifications: no reset of a session removes these.
MARKS_SESSION = re.compile(r"(?i)\b(LISTEN|set_config|SET\s+(SESSION\s+|LOCAL\s+)?\w+\.\w)")
# Texts that PostgreSQL reads as a time of its clock. A text with escapes may be one of them.
_CLOCK_TEXTS = re.compile(
    r"(?i)(?:(?<![a-z])|\\\w{0,3})(?:now|today|tomorrow|yesterday)(?![a-z])"
    r"|(?<!\w)e'(?:[^'\\]|'')*\\"
)
# A comparison with the time of day: the statement does not return the time itself.
_CLOCK = r"(?:clock|statement)_timestamp\s*\(\s*\)"
_COMPARED_CLOCK = re.compile(
    rf"(?i)(?<![-+*/<>=~!@#%^&|`?])[<>]=?\s*(?:{_CLOCK}|\(\s*{_CLOCK}\s*\))"
    r"(?=\s*(?:\)|$|(?:and|or|then|limit)\b))"
)
_WITH_HOLD = re.compile(r"\bWITH\s+HOLD\b", re.IGNORECASE)
# Statements that PostgreSQL refuses, or may refuse, in a transaction.
_OUTSIDE_TRANSACTIONS = re.compile(
    r"(?is)\s*((CALL|DO|VACUUM|CLUSTER|REINDEX)\b|(CREATE|ALTER|DROP)\b("
    r".*\bCONCURRENTLY\b|\s+(DATABASE|TABLESPACE|SYSTEM|SUBSCRIPTION)\b))"
)


@functools.lru_cache(maxsize=1024)
def kind(sql: str) -> str:
    """Return a statement's first word, in capitals, or ROLLBACK TO."""
    match = _STATEMENT.match(without_comments(sql))
    return " ".join(match[1].upper().split()) if match else ""


def only_begins(sql: str) -> bool:
    return bool(_ONLY_BEGIN.fullmatch(sql))


def may_be_several(sql: str) -> bool:
    """Whether a semicolon, even in quotes, is followed by more text."""
    return bool(_SEVERAL.search(sql))


def parts(sql: str) -> list[str]:
    """Return the statements between semicolons, without quoted text."""
    return [part for part in without_quoted(sql).split(";") if part.strip()]


@functools.lru_cache(maxsize=1024)
def words(sql: str) -> frozenset[str]:
    """Return the names and keywords of SQL in small letters, without those in constants."""
    return frozenset(re.findall(r"\w+", without_constants(sql).lower()))


def uses(sql: str, special: Set[str]) -> bool:
    """Whether SQL has one of these names; they may be names of operators."""
    return not special.isdisjoint(words(sql)) or any(
        name in without_quoted(sql) for name in special if not name.isidentifier()
    )


def has_clock_text(text: str) -> bool:
    """Whether a statement, or its parameters, has a text such as 'now' or 'tomorrow 9:00'."""
    return bool(_CLOCK_TEXTS.search(text))


def compares_with_clock(sql: str) -> bool:
    return bool(_COMPARED_CLOCK.search(without_constants(sql)))


def reads_transaction_clock(sql: str) -> bool:
    return has_clock_text(sql) or not words(sql).isdisjoint(TRANSACTION_CLOCKS)


def writes(sql: str) -> bool:
    """Whether SQL may write rows, judged by its keywords."""
    return not WRITES.isdisjoint(words(_ROW_LOCK.sub(" ", sql.lower())))


@functools.lru_cache(maxsize=1024)
def calls(sql: str) -> frozenset[str]:
    """Return the names in front of a parenthesis that may be those of functions."""
    names = _CALL.findall(_INTO.sub(" ", without_constants(sql).lower()))
    called = {name.strip('"').removeprefix("pg_catalog.") for name in names}
    return frozenset(called - KEYWORDS - {""})


@functools.lru_cache(maxsize=1024)
def calls_only_pure(sql: str) -> bool:
    """Whether every function that SQL calls is known to read nothing but its arguments.

    A comparison with the clock is allowed: it has the same result in each order of the steps,
    unless the compared time passes during the exploration. A limit names this.
    """
    return calls(_COMPARED_CLOCK.sub(" ", without_constants(sql))) <= PURE


def only_reads(sql: str, special: Set[str] = frozenset()) -> bool:
    """Whether a statement is known to be a plain SELECT: rows of tables, as of its snapshot.

    `special` are the names that stand for something else, such as those of views and functions.
    """
    return _only_reads(sql) and not uses(sql, special)


@functools.lru_cache(maxsize=1024)
def _only_reads(sql: str) -> bool:
    """Whether a statement is a plain SELECT if its names stand for tables."""
    used = words(sql)
    return (
        kind(sql) == "SELECT"
        and not _LOCKS_OR_WRITES.search(without_constants(sql))
        and "u&" not in sql.lower()
        and calls_only_pure(sql)
        and not has_clock_text(sql)
        and used.isdisjoint(SYSTEM_COLUMNS | CLOCKS)
        and not any(name.startswith(("pg_", "information_schema")) for name in used)
    )


@functools.lru_cache(maxsize=1024)
def locks_only(sql: str) -> bool:
    """Whether a SELECT is plain except that it locks rows."""
    return _only_reads(_ROW_LOCK.sub(" ", sql.lower()))


def commits_separately(sql: str, special: Set[str] = frozenset()) -> bool:
    """Whether a statement's COMMIT in autocommit matters to other processes, and can be a step."""
    bare = without_quoted(sql)
    first = kind(sql)
    if _SEVERAL.search(bare) or first in WITHOUT_COMMIT or _OUTSIDE_TRANSACTIONS.match(bare):
        return False
    if first == "EXPLAIN" and not words(sql).isdisjoint(("analyze", "analyse")):
        return True  # it runs a statement, perhaps one that the text does not show (EXECUTE)
    locks_or_writes = bool(_LOCKS_OR_WRITES.search(bare))
    if first in QUERIES:
        harmless = calls(sql) <= PURE | NOT_TRANSACTIONAL and not uses(sql, special)
        return locks_or_writes or not harmless
    if first == "DECLARE":  # without WITH HOLD it fails outside a transaction
        return bool(_WITH_HOLD.search(bare))
    return first != "COPY" or locks_or_writes or "from" in words(sql)


def commits_unseen(sql: str, special: Set[str] = frozenset(), *, single: bool = True) -> bool:
    """Whether, in autocommit, SQL is one step with a COMMIT that matters to other processes.

    `single` says that the SQL is sent once, and not for several rows of parameters.
    """
    several = parts(sql)
    if any(map(_OUTSIDE_TRANSACTIONS.match, several)):
        return True
    commits = any(commits_separately(part, special) for part in several)
    return commits and not (single and len(several) < 2)


@functools.lru_cache(maxsize=1024)
def locked_tables(sql: str) -> frozenset[str]:
    """Return the names of the tables whose rows SQL may lock or write."""
    text = without_constants(sql).lower()
    tables = {*_WRITTEN_TABLE.findall(_ROW_LOCK.sub(" ", text))} - _NO_TABLES
    if _ROW_LOCK.search(text):
        tables |= table_words(sql)
    return frozenset({*tables, *whole_tables(sql), *_COPIED.findall(text)})


def passes_locked_rows(sql: str) -> bool:
    """Whether SQL locks rows with NOWAIT or SKIP LOCKED."""
    locks = _ROW_LOCK.search(without_constants(sql).lower())
    return bool(locks) and not words(sql).isdisjoint(("nowait", "skip"))


def only_inserts(sql: str) -> bool:
    """Whether SQL locks new rows, in the order in which it names them."""
    return kind(sql) in ("INSERT", "COPY")


def whole_tables(sql: str) -> list[str]:
    """Return the tables that LOCK or TRUNCATE locks, in its order."""
    named = _TABLES.match(without_constants(sql).lower())
    texts = named[1].split(",") if named else []
    return [re.sub(r"^only\s+|[\"*]", "", text.strip()).rpartition(".")[2] for text in texts]


def read_tables(sql: str) -> frozenset[str]:
    """Return the names of the tables and CTEs whose rows SQL reads from its snapshot."""
    return frozenset(_READ_TABLE.findall(without_constants(sql).lower())) - _NO_TABLES


@functools.lru_cache(maxsize=1024)
def without_subqueries(sql: str) -> tuple[str, str]:
    """Return SQL with a NULL for each subquery, and the subqueries."""
    kept = inner = ""
    depth = 0
    for part in re.split(r"(\(\s*select\b|[()])", without_constants(sql), flags=re.IGNORECASE):
        if depth or (part[:1] == "(" and len(part) > 1):
            depth += part.count("(") - part.count(")")
            inner += part
            kept += "" if depth else " NULL "
        else:
            kept += part
    return kept, inner


def table_words(sql: str) -> frozenset[str]:
    """Return the first word of each name in the place of a table or a CTE."""
    return frozenset(_TABLE.findall(without_constants(sql).lower())) - _NO_TABLES


def savepoint_name(sql: str) -> str:
    return sql.rstrip("; \n").split()[-1].strip('"').lower()
