"""The commands that a Django developer types by habit do what is expected, or say what does."""

import os
import signal
import socket
import subprocess
import sys

import pytest

import manage
from loadtests.servers import wait_until
from project.tests.conftest import NOWHERE, ROOT, TIMEOUT, ask, database, run_in

LOCAL = {"SHORTURL_LOCAL": "on"}


def test_manage_test_says_what_runs_the_tests() -> None:
    ended = run_in(ROOT, "manage.py", "test", **LOCAL)
    assert ended.returncode == 1
    assert "make test" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_ctrl_c_ends_any_command_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(argv: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(manage, "execute_from_command_line", interrupt)
    with pytest.raises(SystemExit) as ended:
        manage.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "manage.py: interrupted\n"


@pytest.mark.django_db
@pytest.mark.parametrize("command", ["invite", "changepassword", "webhook remove"])
def test_an_argument_that_is_not_utf_8_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Python makes a lone surrogate of each byte that it cannot decode."""
    monkeypatch.setattr(sys, "argv", ["manage.py", *command.split(), "x\udcff"])
    with pytest.raises(SystemExit) as ended:
        manage.main()
    assert ended.value.code == r"manage.py: 'x\udcff' is not text in UTF-8"


def test_a_command_ends_quietly_when_its_reader_has_gone() -> None:
    """As `manage.py strategies | head` does."""
    reader, writer = os.pipe()
    os.close(reader)
    environment = {**LOCAL, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "manage.py", "strategies"]
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=writer, stderr=subprocess.PIPE, check=True
    )
    os.close(writer)
    assert ended.stderr == b""


@pytest.mark.django_db(transaction=True)
def test_runserver_answers_requests() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def answers() -> bool:
        try:
            return ask(f"http://127.0.0.1:{port}", "GET", "/healthz").status == 200
        except ConnectionError:
            return False

    command = [sys.executable, "manage.py", "runserver", "--noreload", str(port)]
    with database("shorturl_runserver") as url:
        environment = {**LOCAL, "DATABASE_URL": url}
        with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE) as server:
            try:
                wait_until(answers, "runserver does not answer", TIMEOUT)
            finally:
                server.terminate()


@pytest.mark.parametrize("command", ["migrate", "tidy", "tidy --traceback"])
def test_a_command_without_its_database_says_so(command: str) -> None:
    ended = run_in(ROOT, "manage.py", *command.split(), **NOWHERE)
    assert ended.returncode == 1
    assert "127.0.0.1" in ended.stderr
    assert ("Traceback" in ended.stderr) == ("--traceback" in command)
    assert "secret" not in ended.stderr, "the password"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_deliver_waits_for_its_database_until_a_signal_ends_it(number: signal.Signals) -> None:
    command = [sys.executable, "manage.py", "deliver"]
    environment = {"PATH": os.environ["PATH"], **NOWHERE}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr
        assert "Delivering events" in process.stderr.readline()
        process.send_signal(number)
        assert process.wait(TIMEOUT) == 0
