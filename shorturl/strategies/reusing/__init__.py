"""Every strategy that returns the owner's link to a target, or creates one, right and wrong.

Each file has one function `reuse(target_url, *, owner_id, create)`, which returns the ShortUrl and
whether it is new; `create` makes one. Applications call operations.reuse().

Two targets are the same if their texts are equal, character for character: only a server knows
whether two addresses lead to the same page. If the owner has several live links to the target, the
oldest is reused.
"""
