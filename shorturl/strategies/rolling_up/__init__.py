"""Every strategy that rolls recent visits up, right and wrong.

Each file has one function `roll_up()`. It takes rows of RecentVisits, adds their visits to the
rows of their hours, and returns how many rows it took. Applications call roll_up_visits() of
shorturl.visits.roll_up.
"""
