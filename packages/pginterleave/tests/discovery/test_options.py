"""The options of a discovery, its clients, and other databases."""

import importlib.util
import random
import re
import shlex
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from django.core import mail
from django.core.cache import cache
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.test import override_settings

from pginterleave.discovery.calls import find_function
from pginterleave.discovery.candidates import Traffic
from pginterleave.discovery.findings import Discovery
from pginterleave.discovery.first_pass import FirstPass, SentByTest, choose_tests
from pginterleave.discovery.private_names import replace_entropy
from pginterleave.discovery.surroundings import Entropy, Surroundings

from .conftest import RunSuite

CLIENTS = """
import pytest
from django.contrib.auth.models import User
from django.db import transaction
from shop.models import Voucher

@pytest.fixture(autouse=True)
def voucher(db):
    return Voucher.objects.create(code="A")

def test_in_a_transaction(client):
    with transaction.atomic():
        assert client.post("/redeem/A/").status_code == 302

def test_forced_user(client):
    test = pytest.importorskip("rest_framework.test")
    user = User.objects.create(username="ann")
    api = test.APIClient()
    api.force_authenticate(user)
    assert api.post("/api/join/A/", {"note": "me"}, format="json").status_code == 201

def test_ninja(client):
    pytest.importorskip("ninja")
    assert client.post("/ninja/use/A", content_type="application/json").status_code == 200
"""

CALLS = """
import pytest
from shop import services
from shop.models import Redemption, Voucher
from shop.services import redeem as redeem_of_services

@pytest.mark.django_db
def test_call():
    voucher = Voucher.objects.create(code="A")
    assert redeem_of_services(voucher, note="x")
    assert not redeem_of_services(voucher=voucher)
    assert services.Desk.give(voucher) == 1
    assert Voucher.objects.get_or_create(code="B")[1]
    assert services.mark(voucher.pk) == 1
"""
CALLED = ("redeem", "Desk.give", "Voucher.objects.get_or_create", "mark")


def test_requests_of_all_clients_come_through_the_door(run_suite: RunSuite) -> None:
    ran = run_suite("--interleave-requests", "--interleave-minutes=0", tests=CLIENTS)
    assert ("test_in_a_transaction", "POST redeem") in {entry[:2] for entry in ran.left}
    if importlib.util.find_spec("rest_framework"):
        assert ran.races["join", "twice"]
    if importlib.util.find_spec("ninja"):
        assert ran.races["api-1.0.0:use", "twice"]


def test_calls_of_a_function_and_a_method_are_explored(run_suite: RunSuite) -> None:
    """Rows among the arguments are loaded again in each process.

    A manager is an object, and so is a task, of which run() is called with the task itself.
    """
    ran = run_suite(*(f"--interleave-calls=shop.services.{name}" for name in CALLED), tests=CALLS)
    race = ran.races["shop.services.redeem()", "rows"]
    for name in CALLED[1:]:
        assert ran.explored[f"shop.services.{name}()"]["races"] == 0
    assert ran.outcomes == {"shop/tests.py::test_call": "PASSED"}
    _, *arguments = shlex.split(race["command"])
    replayed = run_suite(*arguments, tests=CALLS)
    assert f"rows: {race['sentence']}\n\n" in replayed.text


NO_REASON = "interleave_accepted = POST use twice"
PAGE = "--interleave-html=races.html"


@pytest.mark.parametrize(
    ("options", "ini", "message"),
    [
        (["--interleave-requests"], NO_REASON, "'POST use twice', and needs the name, the kind"),
        ([PAGE], "", "needs --interleave-requests or --interleave-calls"),
        (["--interleave-requests", PAGE, "--interleave-replay=12"], "", "without --interleave-rep"),
        (["--interleave-requests", "--interleave-html=no/x.html"], "", "no/x.html: No such"),
    ],
)
def test_a_wrong_option_is_refused_at_once(
    run_suite: RunSuite, options: list[str], ini: str, message: str
) -> None:
    ran = run_suite(*options, ini=ini)
    assert ran.status == pytest.ExitCode.USAGE_ERROR
    assert message in ran.text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("redeem", "no such function (invalid format: ''). A name begins with the module"),
        ("no_module.redeem", "no such function (No module named 'no_module')"),
        ("pathlib.Path", "Path is no function or method"),
        ("os.sep", "sep is no function or method"),
        ("ast.walk", "walk is no function or method, or it is async or a generator."),
        ("django.db.models.QuerySet.aget", "aget is no function or method, or it is async"),
    ],
)
def test_what_is_no_function_is_named(name: str, message: str) -> None:
    with pytest.raises(pytest.UsageError, match=re.escape(f"calls {name}: {message}")):
        find_function(name)


def test_an_unknown_function_is_named_with_workers(run_suite: RunSuite) -> None:
    """Workers of pytest-xdist would end with an internal error."""
    name = "shop.services.redem"
    workers = ["-n1"] if importlib.util.find_spec("xdist") else []
    ran = run_suite(f"--interleave-calls={name}", *workers, tests=CALLS)
    assert ran.status == pytest.ExitCode.USAGE_ERROR
    assert f"--interleave-calls {name}: no such function (redem). A name begins" in ran.text


@pytest.mark.parametrize("option", ["--interleave-seconds=-1", "--interleave-minutes=nan"])
def test_a_limit_that_is_no_number_from_0_is_refused(run_suite: RunSuite, option: str) -> None:
    ran = run_suite("--interleave-requests", option)
    assert ran.status == pytest.ExitCode.USAGE_ERROR
    name, value = option.split("=")
    assert f"argument {name}: '{value}' is not a number from 0" in ran.text


@pytest.mark.parametrize(
    ("replay", "result"),
    [
        ("shop.services.mark() 1122", "is right"),
        ("shop.services.mark() 1", "is not replayed: shop.services.mark(): '1' is over before"),
        ("shop.services.redeem() 1122", "is not replayed: no test sends such a request"),
    ],
)
def test_a_schedule_that_does_not_run_has_not_become_right(
    run_suite: RunSuite, replay: str, result: str
) -> None:
    options = ["--interleave-calls=shop.services.mark", "--interleave-replay", replay]
    ran = run_suite(*options, tests=CALLS)
    assert ran.status == (0 if result == "is right" else pytest.ExitCode.TESTS_FAILED)
    assert f"{replay} {result}" in ran.text


STOPPED = """
from unittest import mock
import pytest
from shop import services
from shop.models import Voucher

@pytest.fixture(scope="session", autouse=True)
def no_rows_are_left(django_db_setup, django_db_blocker):
    yield
    with django_db_blocker.unblock():
        assert not Voucher.objects.exists()

@pytest.mark.django_db
def test_interrupted():
    voucher = Voucher.objects.create(code="A")
    ctrl_c = KeyboardInterrupt("now")
    with mock.patch("pginterleave.discovery.second_pass.Visit", side_effect=ctrl_c):
        services.redeem(voucher)

def test_fails():
    assert 0

def test_last():
    pass
"""


def test_ctrl_c_leaves_no_rows_in_a_database_that_is_used_again(run_suite: RunSuite) -> None:
    options = ["--interleave-calls=shop.services.redeem", "--deselect=shop/tests.py::test_fails"]
    ran = run_suite(*options, tests=STOPPED)
    assert ran.status == pytest.ExitCode.INTERRUPTED
    assert "ERROR" not in ran.text
    assert ran.left == {("test_interrupted", "shop.services.redeem()", "KeyboardInterrupt: now")}


def test_a_run_that_stops_early_says_that_nothing_is_explored(run_suite: RunSuite) -> None:
    ran = run_suite("--interleave-requests", "-x", tests=STOPPED)
    assert ran.left == {("all tests", "every request", "the run ended before the last test")}


ACCEPTED = """
interleave_accepted =
    POST use twice: a second click is harmless
    POST use rows: it never occurs
"""


def test_an_accepted_race_does_not_fail(run_suite: RunSuite) -> None:
    ran = run_suite(
        "--interleave-requests", "--interleave-seconds=60", "-k", "test_use", ini=ACCEPTED
    )
    assert ran.status == 0, ran.text
    assert "Accepted: POST use twice: a second click is harmless\n" in ran.text
    assert "Accepted, but did not occur: POST use rows\n" in ran.text


def test_a_second_whole_row_save_of_a_class_runs_too() -> None:
    """Two forms that send the same statements may undo each other's columns."""
    save = Traffic("POST rename", "200", ("UPDATE a SET b = %s, c = %s WHERE id = %s",))
    tests = defaultdict(SentByTest, {name: SentByTest([save]) for name in "123"})
    chosen = choose_tests(tests, dict.fromkeys("123", "class"), Discovery().leave_out)
    assert chosen.keys() == {"1", "2"}


def test_what_keeps_a_test_or_its_class_from_running_once_more() -> None:
    for sql, alias, obstacle in (
        ("UPDATE t SET n = 1", "default", ""),
        ("SELECT n FROM t", "other", ""),
        ("UPDATE t SET n = 1", "other", "it writes to the database 'other'"),
        ("alter table t add n int", "default", "it changes the schema"),
    ):
        first_pass = FirstPass()
        first_pass.note_statement(sql, alias)  # outside of tests
        first_pass.test = "class"
        for text, database in (("SELECT 1", "default"), (sql, alias), ("SELECT 1", "default")):
            first_pass.note_statement(text, database)
        assert first_pass.tests["class"].obstacle == obstacle
        first_pass.tests["1"].traffics.append(Traffic("POST a", "200", ("DELETE FROM t",)))
        results = Discovery()
        chosen = choose_tests(first_pass.tests, {"1": "class"}, results.leave_out)
        assert chosen == ({} if obstacle else {"1": {"POST a"}})
        assert [entry.reason for entry in results.left] == [obstacle] * bool(obstacle)


def test_a_process_draws_the_same_random_numbers_whatever_the_other_one_draws() -> None:
    entropy = Entropy()
    with replace_entropy(entropy):
        with entropy.kept_as("process 1"):
            alone = [random.randrange(1_000) for _ in range(2)]
        with entropy.kept_as("process 1"):
            first = random.randrange(1_000)
            with entropy.kept_as("process 2"):
                random.random()
            assert [first, random.randrange(1_000)] == alone
    assert type(random._inst) is random.Random


def test_what_is_left_after_the_minutes_is_listed(run_suite: RunSuite) -> None:
    options = ["--interleave-requests", "--interleave-minutes=0.0001", "-k", "test_use"]
    ran = run_suite(*options)
    assert ran.left == {("test_use", "POST use", "0.0001 minutes passed")}


@pytest.mark.parametrize("is_temporary", [True, False])
def test_the_files_of_a_test_are_put_back_but_not_those_of_a_folder_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_temporary: bool
) -> None:
    if not is_temporary:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    for name in ("overwritten", "removed"):
        (tmp_path / name).write_text("before")
    with override_settings(MEDIA_ROOT=str(tmp_path)):
        before = Surroundings()
        (tmp_path / "overwritten").write_text("after")
        (tmp_path / "removed").unlink()
        (tmp_path / "added").touch()
        before.put_back()
    files = {path.name: path.read_text() for path in tmp_path.iterdir()}
    put_back = {"overwritten": "before", "removed": "before"}
    assert files == (put_back if is_temporary else {"overwritten": "after", "added": ""})


@override_settings(STORAGES={"default": {"BACKEND": "django.core.files.storage.InMemoryStorage"}})
def test_mails_caches_and_files_in_memory_are_put_back_and_each_schedule_draws_the_same() -> None:
    sent, more = mail.EmailMessage("before"), mail.EmailMessage("after")
    mail.outbox = [sent]
    cache.set("seen", ["before"])
    default_storage.save("file", ContentFile("before"))
    before = Surroundings()
    drawn = []
    for _ in range(2):
        mail.outbox.append(more)
        cache.set("seen", ["after"])
        cache.set("more", 1)
        with default_storage.open("file", "w") as file:
            file.write("after")
        before.put_back()
        assert mail.outbox == [sent]
        assert (cache.get("seen"), cache.get("more")) == (["before"], None)
        assert default_storage.open("file").read() == b"before"
        drawn.append(random.random())
    assert drawn[0] == drawn[1]


def test_workers_of_xdist_send_what_they_find(run_suite: RunSuite) -> None:
    pytest.importorskip("xdist")
    options = ["--interleave-requests", "--interleave-seconds=60", "-n3", "--dist=loadscope"]
    ran = run_suite(*options, "-k", "test_use or test_register")
    assert ran.status == 1
    assert "the run ended before the last test" not in ran.text  # nor of a worker without a test
    assert ran.races.keys() == {("use", "twice"), ("register", "errors")}
    assert re.search(r"^TWICE: POST use beside itself$", ran.text, re.MULTILINE)
    assert re.search(r"^gw\d \[\d+ of \d+ requests, \d+ pairs, \d+ races\]", ran.text, re.MULTILINE)


def test_sqlite_is_not_explored(run_suite: RunSuite) -> None:
    sqlite = '{"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}'
    ran = run_suite("--interleave-requests", "-k", "test_use", databases=sqlite)
    assert ran.status == 0
    [(_, name, reason)] = ran.left
    assert name == "every request"
    assert "is sqlite; only PostgreSQL can be explored" in reason


ONCE_MORE = """
import signal, threading
import pytest
from shop import services
from shop.models import Voucher

runs = []

@pytest.fixture(scope="session", autouse=True)
def only_the_first_has_a_timer():
    yield
    assert runs in ([True, False], [False, False])

@pytest.mark.django_db
def test_fails_without_its_transaction():
    is_timer = [isinstance(thread, threading.Timer) for thread in threading.enumerate()]
    is_timer.append(signal.getitimer(signal.ITIMER_REAL)[0] > 60)  # the discovery's own is shorter
    runs.append(any(is_timer))
    services.redeem(Voucher.objects.create(code="A"))
    assert len(runs) == 1
"""


def test_a_test_that_runs_once_more_stops_in_no_debugger(run_suite: RunSuite) -> None:
    ran = run_suite("--interleave-calls=shop.services.redeem", "--pdb", tests=ONCE_MORE)
    assert ran.status == pytest.ExitCode.TESTS_FAILED
    assert ran.races.keys() == {("shop.services.redeem()", "rows")}


@pytest.mark.parametrize("option", ["timeout_func_only=true", "timeout_method=thread"])
def test_a_test_that_runs_once_more_has_no_timer(run_suite: RunSuite, option: str) -> None:
    """A timer of pytest-timeout would end the exploration."""
    pytest.importorskip("pytest_timeout")
    options = ["--interleave-calls=shop.services.redeem", "--timeout=600", "-o", option]
    ran = run_suite(*options, tests=ONCE_MORE)
    assert ran.status == pytest.ExitCode.TESTS_FAILED
    assert "ERROR" not in ran.text


FROZEN = """
import time
from unittest import mock
import pytest
from shop import services
from shop.models import Voucher

runs = []

@pytest.mark.django_db
def test_with_a_clock_that_stands():
    with mock.patch("time.monotonic", return_value=time.monotonic() + 1e9):
        services.redeem(Voucher.objects.create(code="A"))

@pytest.mark.django_db
def test_fails_before_it():
    runs.append(1)
    assert len(runs) == 1
    services.mark(Voucher.objects.create(code="B").pk)
"""


WAITING = """
import threading
import pytest
from pginterleave.discovery import plugin
from shop import services
from shop.models import Voucher

plugin.MAX_WAIT_SECONDS = 5
lock = threading.Lock()

@pytest.mark.django_db
def test_waits():
    lock.acquire()
    services.mark(Voucher.objects.create(code="B").pk)

@pytest.mark.django_db
def test_goes_on():
    services.redeem(Voucher.objects.create(code="A"))
"""


@pytest.mark.parametrize(
    ("tests", "test", "reason"),
    [
        # Under freezegun, which replaces time.monotonic, no time is left for an exploration.
        (
            FROZEN,
            "test_fails_before_it",
            "it was not sent, or wrote nothing, when the test ran once more",
        ),
        (WAITING, "test_waits", "when it ran once more, it took 5 s"),
    ],
    ids=["a clock that stands", "a lock that is kept"],
)
def test_what_is_chosen_is_explored_or_named(
    run_suite: RunSuite, tests: str, test: str, reason: str
) -> None:
    names = ("shop.services.redeem", "shop.services.mark")
    ran = run_suite(*(f"--interleave-calls={name}" for name in names), tests=tests)
    assert ran.races.keys() == {("shop.services.redeem()", "rows")}
    assert ran.left == {(test, "shop.services.mark()", reason)}
