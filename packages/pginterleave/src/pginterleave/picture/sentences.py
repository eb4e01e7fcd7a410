"""A sentence for each step: `Process 2 reads hits = 0, although process 1 has written hits = 1.`"""

from pginterleave.picture import conflicts
from pginterleave.picture.conflicts import Conflict
from pginterleave.picture.history import NEVER, History, find_retries, may_have_read
from pginterleave.picture.wording import WRITES, Step, Words, word_steps

VERBS = {
    "commit": "commits",
    "rollback": "rolls back",
    "savepoint": "sets a savepoint",
    "release savepoint": "releases its savepoint",
    "rollback to savepoint": "rolls back to its savepoint",
    "set isolation level": "sets the isolation level",
    "close": "closes its cursor",
    "read": "reads",
    "lock": "locks",
    "insert": "inserts",
    "write": "writes",
    "delete": "deletes",
}
HAS = {"write": "written", "insert": "inserted", "delete": "deleted"}
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


def write_sentences(history: History, whole: list[Step], arrows: list[Conflict]) -> list[str]:
    worded = word_steps(history.steps, whole)
    again = find_retries(history.steps)
    texts = []
    for step in history.steps:
        number = step["number"]
        text = f"Process {step['process']} "
        if number in again:
            alone = "after all have ended, " if step.get("alone") else ""
            text += f"tries again, {alone}and "
        if step["waited_for"]:
            blockers = " and ".join(map(str, step["waited_for"]))
            text += f"wants to {worded[number - 1].sent}, and waits for process {blockers}"
        else:
            text += _write_result(step, worded[number - 1])
        waited = [earlier for earlier in history.steps[:number] if earlier["waited_for"]]
        resumed = [earlier for earlier in waited if earlier["until"] == number]
        for earlier in sorted(resumed, key=lambda step: not step["error"]):  # errors first
            who = "it" if earlier is step else f"process {earlier['process']}"
            text += f", and {who} {_write_result(earlier, worded[earlier['number'] - 1])}"
            text += _write_reason(history, earlier, arrows, worded)
        if step["until"] == number and not step["waited_for"]:
            text += _write_reason(history, step, arrows, worded)
        texts.append(f"{text}.")
    return texts


def _write_result(step: Step, phrase: Words) -> str:
    """Return what a process does by a step that has returned."""
    if step["error"] == conflicts.DEADLOCK:
        return "is ended by PostgreSQL, as each waits for the other"
    if step["error"]:
        wants = "" if step["waited_for"] else f"wants to {phrase.sent}, and "
        pivot = "PostgreSQL ends it as the pivot of a write skew"
        return wants + (pivot if step["pivot"] else f"is refused: {step['error']}")
    verb, _, what = phrase.sent.partition(" ")
    text = VERBS.get(phrase.sent) or f"{VERBS.get(verb, verb)} {what}"
    if phrase.returned == "no row":
        return f"finds no row to {phrase.sent}".replace(" to read", " of").rstrip(":")
    if verb == "read" and phrase.returned == "found":
        return f"finds {what.rstrip(':')}"
    if verb == "read":
        return f"{text} {phrase.returned}"
    if phrase.returned.startswith("read"):
        return f"{text} and reads{phrase.returned.removeprefix('read')}"
    return text + phrase.returned.replace("→", ", which makes").replace("found", "")


def _write_reason(history: History, step: Step, arrows: list[Conflict], worded: list[Words]) -> str:
    """Return why a step is wrong, or which write of another process a read does not see; or ""."""
    number = step["number"]
    for kind, text in REASONS.items():
        for conflict in arrows:
            source = number if kind == conflicts.UNWRITTEN else conflict.source or 0
            if (conflict.kind, conflict.target) == (kind, number) and 0 < source <= number:
                process = history.steps[source - 1]["process"]
                write = _write_written(worded[source - 1])
                return f", {text.format(process=process, write=write, source=source)}"
    if step["kind"] != "SELECT" or step["error"]:
        return ""
    for other in history.steps[: number - 1]:
        if other["process"] == step["process"] or other["kind"] not in WRITES or other["error"]:
            continue
        is_kept = history.visible_at(other) < NEVER or other["process"] in step["in_transaction"]
        is_earlier = history.done_at(other) < history.done_at(step)
        is_unseen = history.read_at(step) < history.visible_at(other)
        if is_kept and is_earlier and is_unseen and other["rows"] and may_have_read(step, other):
            write = _write_written(worded[other["number"] - 1])
            return f", although process {other['process']} has {write}"
    return ""


def _write_written(phrase: Words) -> str:
    verb, _, what = phrase.sent.partition(" ")
    return f"{HAS.get(verb, verb)} {what}"
