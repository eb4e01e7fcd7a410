"""Every strategy that rolls visits up into longer periods, right and wrong.

Each file has one function `roll_up(unit, into, before)`. It takes the rows of a unit, "h" or "d",
that begin before a time, adds them up in rows of the unit `into`, and returns how many rows it
took. Applications call roll_up_visits() of shorturl.visits.roll_up.
"""
