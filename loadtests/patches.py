"""What the load tests change in libraries at run time. Each function says why no option does it."""

import geventhttpclient.client


def repeat_nothing() -> None:
    """Have Locust's HTTP client send no request twice.

    A GET of a short URL counts a hit, and the client would repeat it when the connection is lost. A
    hit counted twice would look like the strategy's fault. `max_retries` is another repetition, and
    is 0 by default.
    """
    geventhttpclient.client.IDEMPOTENT_METHODS = frozenset()
