"""Every strategy that delivers events from the outbox, right and wrong.

Each file has one function `deliver(subscription_id, send)`. It calls `send` with the next event of
a receiver, deletes the event, and returns whether there was one. An exception of `send` is raised,
and the event stays. Applications call deliver_next() of shorturl.events.delivering.
"""
