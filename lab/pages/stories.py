"""What each race is about, for a reader who meets it for the first time."""

STORIES = {
    "collision": (
        "Keys are drawn at random, and one day a draw hits a key that is in use. There is no "
        "competitor here, one process is enough. What does the create do with the answer that "
        "the database gives?"
    ),
    "toctou": (
        "Two people shorten a URL at the same moment, and both draw the same key. Whoever looks "
        "whether the key is free learns what was true when they looked: between the time of "
        "check and the time of use, the other one can take it."
    ),
    "toctou_in_a_transaction": (
        "The same, in an application that creates the short URL and sends a notification in one "
        "transaction. An error leaves a PostgreSQL transaction unusable, so a retry has nothing "
        "to stand on, unless a savepoint was set before."
    ),
    "custom_key": (
        "Two people ask for the same custom key. There is no second choice: one of them has it, "
        "and the other has to be told, however close the race was."
    ),
    "lost_update": (
        "A link is followed twice at the same moment. Each process reads the counter, adds one "
        "and writes the sum. If both read before either writes, they write the same number: two "
        "hits, and the counter has gone up by one."
    ),
    "clobbered_edit": (
        "Somebody corrects the target of a link while others follow it. Counting a hit has no "
        "business with the target, but an object that is saved as a whole writes every column "
        "back as it was when it was read, and the correction is gone."
    ),
    "deleted_meanwhile": (
        "A link is deleted while somebody follows it. They may get through or be told that there "
        "is no such link, as the order falls; the link must not come back to life, and a hit "
        "must not be counted half."
    ),
    "crossed_locks": (
        "Two callers each resolve two links in one transaction, in opposite order. Whoever locks "
        "what it writes until it commits can meet the other one halfway: each waits for what the "
        "other holds. PostgreSQL notices the deadlock and ends one of them, who must try again."
    ),
}
