"""Clients that guess passwords, each of which takes half a second of a processor to check."""

import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.cookiejar import CookieJar
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

from loadtests.faults.experiment import Experiment, Figure

CLIENTS = 16
SECONDS = 5
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


def wrong_passwords(experiment: Experiment) -> Iterator[Figure]:
    """Have 16 clients post wrong passwords, each for a name of its own and again and again."""
    answers: Counter[int] = Counter()
    clients = [
        threading.Thread(target=guess, args=(experiment.place.urls[0], f"user-{number}", answers))
        for number in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    yield Figure("guesses answered", answers.total(), CLIENTS, least=True)
    yield Figure("500s", answers[500], 0)


def guess(url: str, name: str, answers: Counter[int]) -> None:
    """Post wrong passwords for SECONDS, and count the answers by their status."""
    opener = build_opener(ProxyHandler({}), HTTPCookieProcessor(CookieJar()))
    deadline, token = time.monotonic() + SECONDS, None
    while time.monotonic() < deadline:
        try:
            if token is None:
                with opener.open(f"{url}/login", timeout=SECONDS) as response:
                    token = TOKEN.findall(response.read().decode())[0]
            form = {"username": name, "password": "wrong", "csrfmiddlewaretoken": token}
            with opener.open(f"{url}/login", urlencode(form).encode(), timeout=SECONDS) as response:
                answers[response.status] += 1
        except URLError as error:
            answers[getattr(error, "code", 0)] += 1
        except OSError:
            answers[0] += 1
