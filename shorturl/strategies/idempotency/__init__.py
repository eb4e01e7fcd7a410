"""Every strategy that carries out a request with an Idempotency-Key only once, right and wrong.

Each file has one function `answer(caller, key, fingerprint, *, work)`. `work` carries the request
out and returns the fields of its answer: `status`, `body` and `location`. An exception of `work` is
raised, and no answer is stored. Applications call operations.answer().
"""
