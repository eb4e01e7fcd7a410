"""A sentence for each step: `Process 2 reads hits = 0, although process 1 has written hits = 1.`"""

from pginterleave.picture.conflicts import (
    DEADLOCK,
    FOREIGN,
    LOST,
    REFUSED,
    SKEW,
    STALE,
    UNSEEN,
    UNWRITTEN,
    Conflict,
)
from pginterleave.picture.history import NEVER, History, may_have_read, tries
from pginterleave.picture.wording import WRITES, Step, Words, words

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
    REFUSED: "because step {source} was first",
    LOST: "although process {process} has {write} meanwhile",
    UNSEEN: "although process {process} has {write} meanwhile",
    STALE: "although what step {source} read is out of date",
    SKEW: "although process {process} rests on what it read there in step {source}",
    FOREIGN: "which process {process} has written",
    UNWRITTEN: "and writes nothing after it",
}


def sentences(
    steps: list[Step], whole: list[Step], found: list[Conflict], *, snapshots: bool
) -> list[str]:
    history, said = History(steps, snapshots), words(steps, whole)
    again = tries(steps)
    told = []
    for step in history.steps:
        number, process, until = step["number"], step["process"], step["until"]
        subject = f"Process {process}"
        if number in again:
            subject += " tries again, " + "after all have ended, " * bool(step.get("alone")) + "and"
        if step["waited_for"]:
            blockers = " and ".join(map(str, step["waited_for"]))
            text = f"{subject} wants to {said[number - 1].sent}, and waits for process {blockers}"
        else:
            text = f"{subject} {_returns(step, said[number - 1])}"
        back = [
            earlier
            for earlier in history.steps[:number]
            if earlier["waited_for"] and earlier["until"] == number
        ]
        for earlier in sorted(back, key=lambda each: not each["error"]):
            who = "it" if earlier is step else f"process {earlier['process']}"
            text += f", and {who} {_returns(earlier, said[earlier['number'] - 1])}"
            text += _reason(history, earlier, found, said)
        if until == number and not step["waited_for"]:
            text += _reason(history, step, found, said)
        told.append(f"{text}.")
    return told


def _returns(step: Step, said: Words) -> str:
    """Return what a process does by a step that has returned."""
    if step["error"] == DEADLOCK:
        return "is ended by PostgreSQL, as each waits for the other"
    if step["error"]:
        wants = "" if step["waited_for"] else f"wants to {said.sent}, and "
        pivot = "PostgreSQL ends it as the pivot of a write skew"
        return wants + (pivot if step["pivot"] else f"is refused: {step['error']}")
    verb, _, what = said.sent.partition(" ")
    text = VERBS.get(said.sent) or f"{VERBS.get(verb, verb)} {what}"
    if said.returned == "no row":
        return f"finds no row to {said.sent}".replace(" to read", " of").rstrip(":")
    if verb == "read" and said.returned == "found":
        return f"finds {what.rstrip(':')}"
    if verb == "read":
        return f"{text} {said.returned}"
    if said.returned.startswith("read"):
        return f"{text} and reads{said.returned.removeprefix('read')}"
    return text + said.returned.replace("→", ", which makes").replace("found", "")


def _reason(history: History, step: Step, found: list[Conflict], said: list[Words]) -> str:
    """Return why a step is wrong, or which write of another process a read does not see; or ""."""
    number = step["number"]
    for kind, text in REASONS.items():
        for each in found:
            source = number if kind == UNWRITTEN else each.source or 0
            if (each.kind, each.target) == (kind, number) and 0 < source <= number:
                process = history.steps[source - 1]["process"]
                write = _has_written(said[source - 1])
                return f", {text.format(process=process, write=write, source=source)}"
    if step["kind"] != "SELECT" or step["error"]:
        return ""
    for other in history.steps[: number - 1]:
        if other["process"] == step["process"] or other["kind"] not in WRITES or other["error"]:
            continue
        lasts = history.visible(other) < NEVER or other["process"] in step["in_transaction"]
        done = history.done(other) < history.done(step)
        unseen = done and lasts and history.read_at(step) < history.visible(other)
        if unseen and other["rows"] and may_have_read(step, other):
            write = _has_written(said[other["number"] - 1])
            return f", although process {other['process']} has {write}"
    return ""


def _has_written(said: Words) -> str:
    verb, _, what = said.sent.partition(" ")
    return f"{HAS.get(verb, verb)} {what}"
