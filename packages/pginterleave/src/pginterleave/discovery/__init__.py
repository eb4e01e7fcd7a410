"""`pytest --interleave-requests`: the races of the requests that an existing suite sends.

First every test runs as always, and `first_pass` notes which requests it sends. Then the tests that
sent something new run once more, without a transaction and only to be explored: `second_pass`.

    plugin.py         both passes as a plugin of pytest: progress, exit code, pytest-xdist
    candidates.py     a request or call, what it sends, and whether two of them meet
    door.py           Django's handler: where requests come in, and how one is sent again
    calls.py          the calls of a named function, in place of requests
    first_pass.py     what each test sends, and which tests run once more
    second_pass.py    runs these tests: alone, beside itself, beside what fits
    visits.py         explores at one request, and says which kinds of races occur there
    surroundings.py   what is put back besides rows: mails, caches, files; entropy
    undoing.py        whole-row saves that may undo what another request writes
    findings.py       the results, as plain data; report.py and page.py write them
    private_names.py  all that is not public of pytest, Django and Python
"""
