"""Facts about a statement from its text: its kind, its tables, its calls, whether it writes."""

import functools
import itertools
import re
from collections.abc import Iterator, Set

from pginterleave.sql.reader import Tokens, remove_constants, remove_quoted, tokenize
from pginterleave.sql.table_names import list_named_tables


def _split_words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


SYSTEM_COLUMNS = _split_words("xmin xmax cmin cmax ctid tableoid")
# The results of these depend on which process reads the clock first.
CLOCKS = _split_words("current_timestamp current_time current_date localtime localtimestamp")
# The time at which the transaction began.
TRANSACTION_CLOCKS = CLOCKS | {"now", "transaction_timestamp"}
# Words before a parenthesis that are not the name of a function.
KEYWORDS = _split_words("""
    and or not in exists any all some case when then else as on where having select from join
    by limit offset union except intersect using lateral values set returning with distinct
    over filter group order between like ilike is array row conflict key materialized
    """)
# Statements by their first words: queries; statements whose COMMIT need not be a separate step;
# definitions; transaction control.
QUERIES = _split_words("SELECT WITH VALUES TABLE EXPLAIN")
WITHOUT_COMMIT = {"", "ROLLBACK TO"} | _split_words("""
    ABORT BEGIN CHECKPOINT CLOSE COMMIT DEALLOCATE DISCARD END FETCH LISTEN LOAD LOCK MOVE NOTIFY
    PREPARE RELEASE RESET ROLLBACK SAVEPOINT SET SHOW START UNLISTEN
    """)
DEFINITIONS = _split_words("CREATE ALTER DROP GRANT REVOKE COMMENT SECURITY IMPORT REFRESH REINDEX")
CONTROL = _split_words("BEGIN START COMMIT END ROLLBACK SAVEPOINT RELEASE SET")
WRITES = _split_words("insert update delete merge copy truncate execute into")
# Functions of PostgreSQL that read nothing but their arguments.
PURE = _split_words("""
    count sum avg min max coalesce nullif greatest least lower upper length char_length
    substring substr trim btrim ltrim rtrim left right replace concat concat_ws abs round ceil
    ceiling floor mod power sqrt sign extract date_trunc date_part to_char to_date
    to_timestamp make_interval make_date cast position strpos array_agg string_agg
    json_agg jsonb_agg bool_and bool_or every row_number rank dense_rank lag lead first_value
    last_value json_build_object jsonb_build_object to_json to_jsonb row_to_json unnest
    array_length jsonb_array_length cardinality md5 int integer bigint numeric varchar char text
    date timestamp interval
    """)
# Functions with effects that do not wait for a COMMIT: it makes none visible, and releases none.
NOT_TRANSACTIONAL = _split_words("""
    nextval currval lastval setval pg_get_serial_sequence pg_advisory_lock pg_advisory_unlock
    pg_advisory_lock_shared pg_advisory_unlock_shared pg_advisory_unlock_all
    pg_try_advisory_lock pg_try_advisory_lock_shared set_config current_setting pg_sleep
    pg_backend_pid random version pg_cancel_backend pg_terminate_backend pg_blocking_pids
    generate_series gen_random_uuid clock_timestamp statement_timestamp transaction_timestamp
    now age hashtext hashtextextended pg_typeof pg_notify current_database current_schema
    """)

_BEGIN_ALONE = re.compile(r"\s*(BEGIN|START\s+TRANSACTION)\b[^;]*;?\s*", re.IGNORECASE)
_SEVERAL = re.compile(r";\s*\S")
SETS_ISOLATION = re.compile(r"SET\s+TRANSACTION\s+ISOLATION\s+LEVEL[\s\w]+;?\s*", re.IGNORECASE)
ROW_LOCK = re.compile(r"\bfor\s+(no\s+key\s+|key\s+)?(update|share)\b", re.IGNORECASE)
_LOCKS_OR_WRITES = _split_words("for into insert update delete merge")
_OPERATOR = re.compile(r"[-+*/<>=~!@#%^&|`?]+")
# Statements that leave a custom setting or notifications: no reset of a session removes these.
OUTLIVES_RESET = re.compile(r"(?i)\b(LISTEN|set_config|SET\s+(SESSION\s+|LOCAL\s+)?\w+\.\w)")
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
def find_kind(sql: str) -> str:
    """Return a statement's first word in capitals, or ROLLBACK TO; "" if there is none."""
    words = [token for token in tokenize(sql) if not token.is_mark("(", ";")][:3]
    if not words or words[0].kind != "word":
        return ""
    # ROLLBACK TO a, or ROLLBACK TRANSACTION TO a
    is_to_savepoint = words[0].is_word("rollback") and any(w.is_word("to") for w in words[1:])
    return "ROLLBACK TO" if is_to_savepoint else words[0].value.upper()


def is_begin_alone(sql: str) -> bool:
    """Whether SQL is a BEGIN or START TRANSACTION, and no further statement."""
    return bool(_BEGIN_ALONE.fullmatch(sql))


def may_have_several_statements(sql: str) -> bool:
    """Whether text follows a semicolon, which may be in quotes."""
    return bool(_SEVERAL.search(sql))


def split_statements(sql: str) -> list[str]:
    """Return the statements between semicolons; quoted text is left out of them."""
    return [text for text in remove_quoted(sql).split(";") if text.strip()]


@functools.lru_cache(maxsize=1024)
def find_words(sql: str) -> frozenset[str]:
    """Return the keywords and unquoted names of SQL in small letters."""
    return frozenset(token.value for token in tokenize(sql) if token.kind == "word")


@functools.lru_cache(maxsize=1024)
def find_names(sql: str) -> frozenset[str]:
    """Return what may be a name in SQL, as the catalogue has it, with all keywords."""
    return frozenset(token.value for token in tokenize(sql) if token.is_name())


def has_any_name(sql: str, names: Set[str]) -> bool:
    """Whether SQL has one of these names, of which some may be operators such as `+!`."""
    operators = filter(_OPERATOR.fullmatch, names)
    unquoted = remove_quoted(sql)
    return not names.isdisjoint(find_names(sql)) or any(name in unquoted for name in operators)


def has_clock_text(text: str) -> bool:
    """Whether a statement, or its parameters, has a text such as 'now' or 'tomorrow 9:00'."""
    return bool(_CLOCK_TEXTS.search(text))


def has_clock_comparison(sql: str) -> bool:
    """Whether SQL compares something with clock_timestamp() or statement_timestamp()."""
    return bool(_COMPARED_CLOCK.search(remove_constants(sql)))


def has_transaction_clock(sql: str) -> bool:
    """Whether SQL reads the time at which its transaction began."""
    return has_clock_text(sql) or not find_names(sql).isdisjoint(TRANSACTION_CLOCKS)


def may_write(sql: str) -> bool:
    """Whether SQL may write rows, judged by its keywords."""
    return not WRITES.isdisjoint(find_words(ROW_LOCK.sub(" ", sql)))


@functools.lru_cache(maxsize=1024)
def find_called_names(sql: str) -> frozenset[str]:
    """Return the names in front of a parenthesis that may be those of functions."""
    return frozenset(_list_called_names(tokenize(sql)))


def _list_called_names(tokens: Tokens) -> Iterator[str]:
    """Yield names that may be called; those of other schemas than pg_catalog with their schema."""
    for index, (token, after) in enumerate(itertools.pairwise(tokens)):
        if not (token.is_name() and after.is_mark("(")) or token.is_word(*KEYWORDS):
            continue
        start = index
        while start > 1 and tokens[start - 1].is_mark(".") and tokens[start - 2].is_name():
            start -= 2
        if not (start and tokens[start - 1].is_word("into")):  # INTO a table (column)
            name = ".".join(part.value for part in tokens[start : index + 1 : 2])
            yield name.removeprefix("pg_catalog.")


@functools.lru_cache(maxsize=1024)
def has_only_pure_calls(sql: str) -> bool:
    """Whether every function that SQL calls is known to read nothing but its arguments.

    A comparison with the clock is allowed: it has the same result in each order of the steps,
    unless the compared time passes during the exploration. The catalogue notes that as a limit.
    """
    return find_called_names(_COMPARED_CLOCK.sub(" ", remove_constants(sql))) <= PURE


def is_plain_select(sql: str, special_names: Set[str] = frozenset()) -> bool:
    """Whether a statement is known to be a plain SELECT: rows of tables, as of its snapshot.

    `special_names` do not stand for tables, but for views, functions and so on.
    """
    return _is_plain_select_of_tables(sql) and not has_any_name(sql, special_names)


@functools.lru_cache(maxsize=1024)
def _is_plain_select_of_tables(sql: str) -> bool:
    """Whether a statement is a plain SELECT if its names stand for tables."""
    names = find_names(sql)
    return (
        find_kind(sql) == "SELECT"
        and _LOCKS_OR_WRITES.isdisjoint(find_words(sql))
        and "u&" not in sql.lower()  # U&"…" may be any name
        and has_only_pure_calls(sql)
        and not has_clock_text(sql)
        and names.isdisjoint(SYSTEM_COLUMNS | CLOCKS)
        and not any(name.startswith(("pg_", "information_schema")) for name in names)
    )


@functools.lru_cache(maxsize=1024)
def is_plain_locking_select(sql: str) -> bool:
    """Whether a SELECT is plain except that it locks rows."""
    return _is_plain_select_of_tables(ROW_LOCK.sub(" ", sql))


def has_separate_commit(sql: str, special_names: Set[str] = frozenset()) -> bool:
    """Whether the COMMIT of a statement in autocommit can be a step, and others may notice it.

    They may if the statement may lock or write rows, or call a function with an effect.
    """
    unquoted = remove_quoted(sql)
    kind = find_kind(sql)
    if kind in WITHOUT_COMMIT or _SEVERAL.search(unquoted) or _OUTSIDE_TRANSACTIONS.match(unquoted):
        return False
    if kind == "EXPLAIN" and not find_words(sql).isdisjoint(("analyze", "analyse")):
        return True  # it runs a statement, perhaps one that the text does not show (EXECUTE)
    locks_or_writes = not _LOCKS_OR_WRITES.isdisjoint(find_words(sql))
    if kind in QUERIES:
        known_calls = find_called_names(sql) <= PURE | NOT_TRANSACTIONAL
        return locks_or_writes or not known_calls or has_any_name(sql, special_names)
    if kind == "DECLARE":  # without WITH HOLD it fails outside a transaction
        return bool(_WITH_HOLD.search(unquoted))
    return kind != "COPY" or locks_or_writes or "from" in find_words(sql)


def has_unseen_commit(sql: str, special_names: Set[str] = frozenset(), *, single: bool) -> bool:
    """Whether others may notice a COMMIT of SQL in autocommit that cannot be a step.

    `single` says that the SQL is not sent for several rows of parameters.
    """
    parts = split_statements(sql)
    if any(map(_OUTSIDE_TRANSACTIONS.match, parts)):
        return True
    is_one_statement = single and len(parts) <= 1
    return not is_one_statement and any(has_separate_commit(part, special_names) for part in parts)


def find_locked_tables(sql: str) -> frozenset[str]:
    """Return the names of the tables whose rows SQL may lock or write."""
    if ROW_LOCK.search(remove_quoted(sql)):
        return find_tables(sql)
    keywords = {"update", "into", "delete from"}
    if find_kind(sql) == "COPY" and "from" in find_words(sql):
        keywords.add("copy")
    written = {name for name, keyword in list_named_tables(sql) if keyword in keywords}
    return frozenset({*written, *list_whole_locked_tables(sql)})


def locks_without_waiting(sql: str) -> bool:
    """Whether SQL locks rows with NOWAIT or SKIP LOCKED."""
    row_lock = ROW_LOCK.search(remove_quoted(sql))
    return bool(row_lock) and not find_words(sql).isdisjoint(("nowait", "skip"))


def locks_new_rows(sql: str) -> bool:
    """Whether SQL locks only rows that it inserts, in the order in which it names them."""
    return find_kind(sql) in ("INSERT", "COPY")


def list_whole_locked_tables(sql: str) -> list[str]:
    """Return the tables that LOCK, TRUNCATE or DROP locks, in its order."""
    words = ("lock", "truncate", "drop table", "lock table", "truncate table")
    return [name for name, keyword in list_named_tables(sql) if keyword in words]


def find_read_tables(sql: str) -> frozenset[str]:
    """Return the names of the tables and CTEs whose rows SQL reads from its snapshot."""
    words = ("from", "join", "using", "table", "delete from")
    return frozenset(name for name, keyword in list_named_tables(sql) if keyword in words)


@functools.lru_cache(maxsize=1024)
def split_off_subqueries(sql: str) -> tuple[str, str]:
    """Return SQL with a NULL for each subquery, and the subqueries."""
    tokens = tokenize(sql)
    outer: list[str] = []
    subqueries: list[str] = []
    depth = 0  # of parentheses within a subquery, with its own; 0: outside
    for token, after in itertools.zip_longest(tokens, tokens[1:]):
        begins_subquery = token.is_mark("(") and after is not None and after.is_word("select")
        if depth or begins_subquery:
            depth += token.is_mark("(") - token.is_mark(")")
            subqueries.append(token.text)
            outer += [] if depth else ["NULL"]
        else:
            outer.append(token.text)
    return " ".join(outer), " ".join(subqueries)


def find_tables(sql: str) -> frozenset[str]:
    """Return the names of all tables, views and CTEs in SQL."""
    return frozenset(name for name, _ in list_named_tables(sql))


def find_savepoint_name(sql: str) -> str:
    """Return the name in a SAVEPOINT, RELEASE or ROLLBACK TO."""
    names = [token.value for token in tokenize(sql) if token.is_name()]
    return names[-1]
