"""Calls a solution in plain processes of the operating system, which share the database alone.

Each has another PYTHONHASHSEED, and may have another clock.
"""

import datetime
import importlib
import importlib.util
import inspect
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any

PATIENCE = 90  # seconds for all turns, which take three


def run(exercise: Any, solution: Any) -> list[list[str]]:
    """Return what each process was told in each turn."""
    import pytest
    from django.db import connection

    module = type(exercise).__module__
    if not (place := _place(solution)):
        pytest.skip("The function is in no file that another process can import.")
    names = (module, type(exercise).__name__, str(connection.settings_dict["NAME"]), *place)
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    this = [sys.executable, "-m", __name__]
    running = [
        subprocess.Popen(  # noqa: S603 - this module
            [*this, str(number), str((number - 1) * exercise.days), *names],
            cwd=Path(__file__).parents[2],
            env={
                **os.environ,
                "PYTHONHASHSEED": str(number),
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "DJANGO_SETTINGS_MODULE": "project.settings",
            },
            text=True,
            **pipes,
        )
        for number, _ in enumerate(exercise.rush.steps, 1)
    ]
    told: list[list[str]] = [[] for _ in running]
    timer = Timer(PATIENCE, lambda: [*map(subprocess.Popen.kill, running)])
    timer.start()
    try:
        # First each says that it is ready. All begin each turn together, on any machine.
        for _ in range(exercise.turns + 1):
            for each, answers in zip(running, told, strict=True):
                answers.append(each.stdout.readline().strip() if each.stdout else "")
            for each in running:
                with suppress(BrokenPipeError):
                    print("go", file=each.stdin, flush=True)
        complaints = [each.communicate()[1] for each in running]
    finally:
        timer.cancel()
        for each in running:
            each.kill()
            each.wait()
    for each, complaint in zip(running, complaints, strict=True):
        if each.returncode:
            what = f"does not end within {PATIENCE} seconds" if each.returncode < 0 else "fails"
            pytest.fail(f"A process of the operating system {what}.\n\n{complaint}", pytrace=False)
    return [answers[1:] for answers in told]


def _place(solution: Any) -> tuple[str, str, str] | None:
    """Return the module, its file and the name by which another process finds the solution."""
    name, module = getattr(solution, "__name__", ""), getattr(solution, "__module__", "")
    file = getattr(getattr(inspect.unwrap(solution), "__code__", None), "co_filename", "")
    known = sys.modules.get(module)
    is_there = getattr(known, name, None) is solution and getattr(known, "__file__", "") == file
    return (module, file, name) if is_there else None


def _found(module: str, file: str, name: str) -> Any:
    if importlib.util.find_spec(module) is None:
        spec = importlib.util.spec_from_file_location(module, file)
        assert spec and spec.loader  # noqa: PT018
        sys.modules[module] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[module])
    return getattr(importlib.import_module(module), name)


def set_clock(days: int) -> None:
    """Let Python's clock be wrong by so many days, as on a machine whose clock is wrong."""
    real: Any = datetime.datetime
    clock, shift = time.time, datetime.timedelta(days)

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, real)

    class Wrong(real, metaclass=Kind):  # type: ignore[misc]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return real.now(tz) + shift

    datetime.datetime = Wrong  # type: ignore[misc]
    time.time = lambda: clock() + shift.total_seconds()


def main(number: int, exercise: str, class_name: str, database: str, *place: str) -> None:
    import django

    django.setup()
    from django.db import connection

    connection.settings_dict["NAME"] = database
    judged = getattr(importlib.import_module(exercise), class_name)()
    step, solution = judged.rush.steps[number - 1], _found(*place)
    connection.ensure_connection()
    print("ready", flush=True)
    for turn in range(judged.turns):
        sys.stdin.readline()
        print(step.turn(solution, number, turn), flush=True)


if __name__ == "__main__":
    if days := int(sys.argv[2]):
        set_clock(days)
    main(int(sys.argv[1]), *sys.argv[3:])
