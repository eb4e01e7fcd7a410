"""A sentence for each step: `Process 2 reads hits = 0, although process 1 has written hits = 1.`"""

from pginterleave.formatting import format_processes
from pginterleave.picture import conflicts
from pginterleave.picture.conflicts import Conflict
from pginterleave.picture.history import NEVER, History, find_retries, may_have_read
from pginterleave.picture.wording import WRITES, RecordedStep, Words

VERBS = {
    "commit": "commits",
    "rollback": "rolls back",
    "savepoint": "sets a savepoint",
    "release savepoint": "releases its savepoint",
    "rollback to savepoint": "rolls back to its savepoint",
    "set isolation level": "sets the isolation level",
    "close": "closes its cursor",
    "fetch": "fetches rows",
    "lock table": "locks the table",
    "read": "reads",
    "lock": "locks",
    "insert": "inserts",
    "write": "writes",
    "delete": "deletes",
}
PARTICIPLES = {"write": "written", "insert": "inserted", "delete": "deleted"}
# Why a step is wrong, by the kind of conflict; the first kind that applies is used.
REASONS = {
    conflicts.REFUSED: "because step {source} was first",
    conflicts.LOST: "although process {process} has {write} meanwhile",
    conflicts.UNSEEN: "although process {process} has {write} meanwhile",
    conflicts.STALE: "although what step {source} read is out of date",
    conflicts.SKEW: "although process {process} rests on what it read there in step {source}",
    conflicts.FOREIGN: "which process {process} has written",
    conflicts.UNWRITTEN: "and writes nothing after it",
}


def write_sentences(history: History, words: list[Words], shown: list[Conflict]) -> list[str]:
    """Return a sentence for each step, with the reason if a conflict shows the step to be wrong."""
    retries = find_retries(history.steps)
    sentences = []
    for step in history.steps:
        number = step["number"]
        text = f"Process {step['process']} "
        if number in retries:
            alone = "after all have ended, " if step.get("alone") else ""
            text += f"tries again, {alone}and "
        if step["waited_for"]:
            blockers = format_processes(step["waited_for"])
            text += f"wants to {words[number - 1].sent}, and waits for {blockers}"
        else:
            text += _write_result(step, words[number - 1])
        resumed = [s for s in history.steps[:number] if s["waited_for"] and s["until"] == number]
        resumed.sort(key=lambda step: not step["error"])  # errors first
        for waiting in resumed:
            who = "it" if waiting is step else f"process {waiting['process']}"
            text += f", and {who} {_write_result(waiting, words[waiting['number'] - 1])}"
            text += _write_reason(history, waiting, shown, words)
        if step["until"] == number and not step["waited_for"]:
            text += _write_reason(history, step, shown, words)
        sentences.append(f"{text}.")
    return sentences


def _write_result(step: RecordedStep, words: Words) -> str:
    """Return the end of a sentence on a step that has returned: `reads hits = 0`."""
    if step["error"] == conflicts.DEADLOCK_ERROR:
        return "is ended by PostgreSQL, as each waits for the other"
    if step["error"]:
        wants = "" if step["waited_for"] else f"wants to {words.sent}, and "
        pivot = "PostgreSQL ends it as the pivot of a write skew"
        return wants + (pivot if step["pivot"] else f"is refused: {step['error']}")
    verb, _, what = words.sent.partition(" ")
    sends = f"sends {step['kind']}"  # of a kind without words, such as CALL
    text = VERBS.get(words.sent) or (f"{VERBS[verb]} {what}".strip() if verb in VERBS else sends)
    if words.returned == "no row":  # "finds no row to write …", but "finds no row of a"
        return f"finds no row to {words.sent}".replace(" to read", " of").rstrip(":")
    if verb == "read" and words.returned == "found":
        return f"finds {what.rstrip(':')}"
    if verb == "read":
        return f"{text} {words.returned}"
    if words.returned.startswith("read"):
        return f"{text} and reads{words.returned.removeprefix('read')}"
    return text + words.returned.replace("→", ", which makes").replace("found", "")


def _write_reason(
    history: History, step: RecordedStep, shown: list[Conflict], words: list[Words]
) -> str:
    """Return why a step is wrong, or else which write of another process it has not seen; or ""."""
    number = step["number"]
    for kind, text in REASONS.items():
        for conflict in shown:
            # A step that no write follows is its own source.
            source = number if kind == conflicts.UNWRITTEN else conflict.source or 0
            if (conflict.kind, conflict.target) == (kind, number) and 0 < source <= number:
                process = history.steps[source - 1]["process"]
                write = _write_participle(words[source - 1])
                return f", {text.format(process=process, write=write, source=source)}"
    if step["kind"] != "SELECT" or step["error"]:
        return ""
    for other in history.steps[: number - 1]:
        if other["process"] != step["process"] and _is_unseen(history, step, other):
            write = _write_participle(words[other["number"] - 1])
            return f", although process {other['process']} has {write}"
    return ""


def _is_unseen(history: History, read: RecordedStep, write: RecordedStep) -> bool:
    """Whether a read comes after a write to its rows, and before the write is visible."""
    if write["kind"] not in WRITES or write["error"] or not write["rows"]:
        return False
    is_kept = history.visible_at(write) < NEVER or write["process"] in read["in_transaction"]
    is_earlier = history.done_at(write) < history.done_at(read)
    is_invisible = history.read_at(read) < history.visible_at(write)
    return is_kept and is_earlier and is_invisible and may_have_read(read, write)


def _write_participle(words: Words) -> str:
    """Return what a step has done: `written hits = 1`."""
    verb, _, what = words.sent.partition(" ")
    return f"{PARTICIPLES.get(verb, verb)} {what}"
