"""The open load and the soak: what they make of numbers. A service is measured in CI."""

import os
import socket
import sys
import threading
from collections import Counter
from contextlib import ExitStack

import pytest

from loadtests import overload, soak
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


def test_the_curve() -> None:
    waits = [0.0421, 0.01, *[0.02] * 99]
    loads = [
        OfferedLoad(4_998, 5, Counter({"302": 4_000, "503": 998}), waits, usual=812.4),
        OfferedLoad(25_000, 5, Counter({"302": 4_500, "503": 20_493, "timed out": 7})),
    ]
    lines = overload.table((1, 5), loads).splitlines()
    *_, first, second = (line.split("|")[1:-1] for line in lines)
    assert [cell.strip() for cell in first] == [
        "1 ×",
        "1,000",
        "800",
        "812",
        "0%",
        "200",
        "0",
        "20 ms",
        "20 ms",
        "42 ms",
    ]
    assert [cell.strip() for cell in second] == [
        *("5 ×", "5,000", "900", "0", "0%", "4,099", "7", "0 ms", "0 ms", "0 ms")
    ]


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
    figures = list(open_loop.overload(object(), (2, 10), loads))  # type: ignore[arg-type]
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


def test_a_connection_that_found_the_queue_full_sends_its_request_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_loop, "SECONDS", 0.1)
    sent, dropped = open_loop.sent, threading.Event()

    def watched(client: socket.socket, request: bytes) -> bool:
        if not sent(client, request):
            dropped.set()
            return False
        return True

    monkeypatch.setattr(open_loop, "sent", watched)
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as server,
        socket.create_connection(server.getsockname()),  # which fills the queue
    ):

        def serve() -> None:
            assert dropped.wait(10)
            server.accept()[0].close()
            client = server.accept()[0]
            assert client.recv(100) == b"GET /"
            client.sendall(b"HTTP/1.1 302 Found\r\n\r\n")
            client.close()

        thread = threading.Thread(target=serve)
        thread.start()
        load = open_loop.send("127.0.0.1", server.getsockname()[1], b"GET /", rate=10)
        thread.join()
    assert load.statuses == {"302": 1}


@pytest.mark.parametrize("given", ["0", "-1", "1.5", "1441", "a"])
def test_minutes(
    given: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["soak", "--minutes", given])
    with pytest.raises(SystemExit):
        soak.main()
    assert f"'{given}' is not a whole number from 1 to 1440" in capsys.readouterr().err
