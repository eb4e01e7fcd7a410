"""The open load: what it counts, and what it compares."""

import os
import socket
import threading
from collections import Counter
from contextlib import ExitStack

import pytest

from loadtests.faults import open_loop
from loadtests.faults.experiment import Experiment
from loadtests.faults.open_loop import OfferedLoad, find_capacity


def test_the_capacity_is_the_best_goodput_of_rates_beyond_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half an answered rate does not end the search: the machine may have been busy meanwhile."""
    offered = []

    def offer(_: Experiment, rate: float) -> OfferedLoad:
        offered.append(rate)
        answered = 210 if rate == 400 else min(rate, 900)
        return OfferedLoad(int(rate), 1, Counter({"302": int(answered)}))

    monkeypatch.setattr(open_loop, "offer", offer)
    assert find_capacity(object()) == 900  # type: ignore[arg-type]
    assert offered == [200, 400, 800, 1600, 3200]


def test_the_goodput_is_compared_with_what_is_around_it_and_what_the_client_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The machine gets slower meanwhile, and the client has half of its two processors."""
    goodputs = iter([1_000, 450, 800, 360, 640])

    def offer(_: Experiment, rate: float) -> OfferedLoad:
        client = 5 if rate > 1_000 else 0
        return OfferedLoad(int(rate), 5, Counter({"302": 5 * next(goodputs)}), client=client)

    monkeypatch.setattr(open_loop, "offer", offer)
    monkeypatch.setattr(open_loop, "find_capacity", lambda _: 1_000)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    loads: list[OfferedLoad] = []
    given = open_loop.overload(object(), (2, 10), told=loads.append)  # type: ignore[arg-type]
    figures = list(given)
    assert [load.usual for load in loads] == [900, 720]
    assert [figure.measured for figure in figures if "goodput" in figure.what] == [100, 100]


def test_requests_arrive_whether_earlier_ones_were_answered_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of three is answered, one is hung up on, and one waits until the client gives up."""
    monkeypatch.setattr(open_loop, "SECONDS", 0.1)
    monkeypatch.setattr(open_loop, "CLIENT_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as kept:

        def serve() -> None:
            for number in range(30):
                client = kept.enter_context(server.accept()[0])
                assert client.recv(100) == b"GET /"
                if number % 3 == 0:
                    client.sendall(b"HTTP/1.1 302 Found\r\n\r\n")
                if number % 3 == 1:
                    client.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=serve)
        thread.start()
        load = open_loop.send("127.0.0.1", server.getsockname()[1], b"GET /", rate=300)
        thread.join()
    assert load.statuses == {"302": 10, "closed": 10, "timed out": 10}
    assert (load.sent, load.failed, len(load.waits)) == (30, 20, 10)
