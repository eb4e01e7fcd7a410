"""Calls a solution in plain processes of the operating system, which share the database alone.

Each has another PYTHONHASHSEED. A process of an exercise about periods has another clock, too.
"""

import datetime
import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from threading import Timer
from typing import Any

PATIENCE = 90  # seconds for all turns, which take three


def run(exercise: Any, solution: Any) -> list[list[str]]:
    """Return what each process was told in each turn."""
    import pytest
    from django.db import connection

    if not (place := _place(solution, type(exercise).__module__)):
        pytest.skip("The function is in no file that another process can import.")
    database = connection.settings_dict["NAME"]
    module = type(exercise).__module__
    names = (module, type(exercise).__name__, str(database), str(exercise.turns), *place)
    running = [
        subprocess.Popen(
            [sys.executable, "-m", __name__, str(number), *names],
            cwd=Path(__file__).parents[2],
            env={
                **os.environ,
                "PYTHONHASHSEED": str(number),
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "DJANGO_SETTINGS_MODULE": "project.settings",
                "EXERCISE_CLOCK": str(exercise.days * (number - 1)),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(1, len(exercise.rush.steps) + 1)
    ]
    timers = [Timer(PATIENCE, each.kill) for each in running]
    try:
        for each, timer in zip(running, timers, strict=True):
            timer.start()
            each.stdout.readline()  # type: ignore[union-attr]  # it is ready
        for each in running:
            each.stdin.write("go\n")  # type: ignore[union-attr]
            each.stdin.flush()  # type: ignore[union-attr]
        told = [each.communicate() for each in running]
    finally:
        for each, timer in zip(running, timers, strict=True):
            timer.cancel()
            each.kill()
            each.wait()
    for each, (_, complained) in zip(running, told, strict=True):
        if each.returncode:
            what = f"does not end within {PATIENCE} seconds" if each.returncode < 0 else "fails"
            pytest.fail(f"A process of the operating system {what}.\n\n{complained}", pytrace=False)
    return [answers.splitlines() for answers, _ in told]


def _place(solution: Any, exercise: str) -> tuple[str, str, str] | None:
    """Return the module, its file and the name by which another process finds the solution."""
    code = getattr(solution, "__code__", None)
    for name, module in sorted(sys.modules.items(), key=lambda each: each[0] == exercise):
        file = getattr(module, "__file__", None)
        if not file or (code and code.co_filename != file):
            continue
        for attribute, value in vars(module).items():
            if value is solution:
                return name, file, attribute
    return None


def _found(module: str, file: str, name: str) -> Any:
    try:
        holder = importlib.import_module(module)
    except ImportError:
        holder = None
    if getattr(holder, "__file__", "") != file:
        spec = importlib.util.spec_from_file_location(module, file)
        assert spec
        assert spec.loader
        holder = sys.modules[module] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(holder)
    return getattr(holder, name)


def set_clock(days: int) -> None:
    """Let Python's clock be wrong by so many days, as on a machine whose clock is wrong."""
    real, shift = datetime.datetime, datetime.timedelta(days)

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, real)

    class Wrong(real, metaclass=Kind):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return real.now(tz) + shift

        @classmethod
        def utcnow(cls) -> Any:
            return real.now(datetime.UTC).replace(tzinfo=None) + shift

        @classmethod
        def today(cls) -> Any:
            return real.now() + shift

    datetime.datetime = Wrong  # type: ignore[misc]
    import time

    clock = time.time
    time.time = lambda: clock() + shift.total_seconds()


def main(number: int, exercise: str, class_name: str, database: str, turns: int, *place: str) -> None:
    import django

    django.setup()
    from django.db import connection

    connection.settings_dict["NAME"] = database
    judged = getattr(importlib.import_module(exercise), class_name)()
    step, solution = judged.rush.steps[number - 1], _found(*place)
    connection.ensure_connection()
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    for turn in range(turns):
        print(step.turn(solution, number, turn), flush=True)  # noqa: T201


if __name__ == "__main__":
    if days := int(os.environ["EXERCISE_CLOCK"]):
        set_clock(days)
    main(int(sys.argv[1]), *sys.argv[2:5], int(sys.argv[5]), *sys.argv[6:])
