"""To which part of a redirect a sample of the profile belongs."""

import inspect
from collections.abc import Iterator
from types import ModuleType

import pytest
from gunicorn.asgi import protocol

from loadtests.profiling import PARTS, PROTOCOL, REST, find_part
from project.serving import hit_counter, redirects


@pytest.mark.parametrize(
    ("functions", "part"),
    [
        (["json.encoder.JSONEncoder.encode."], "the batch's lists and JSON"),
        (["asyncio.locks.Event.wait.", "project.serving.connection.Session.run."], "the driver"),
        (["shorturl.links.keys.key_of."], "routing and headers"),
        (["shorturl.links.validators.parse."], "the task is woken, and the answer made"),
        ([f"{PROTOCOL}._handle_http_request.<locals>.send."], "gunicorn: send"),
        (["gunicorn.workers.gasgi.ASGIWorker.run."], "event loop, between the functions"),
        (["threading.Thread.run."], REST),
    ],
)
def test_the_innermost_function_that_is_listed_decides(functions: list[str], part: str) -> None:
    outermost = ["gunicorn.arbiter.Arbiter.run.", "runpy.run_module."]
    if part == REST:
        outermost = []
    assert find_part("\t".join([*functions, *outermost])) == part


def list_functions(*modules: ModuleType) -> Iterator[str]:
    """Yield the names of the functions and methods of modules, as a sample has them."""
    for module in modules:
        for value in vars(module).values():
            if getattr(value, "__module__", "") == module.__name__:
                for function in (
                    [value, *vars(value).values()] if inspect.isclass(value) else [value]
                ):
                    if inspect.isfunction(function):
                        yield f"{module.__name__}.{function.__qualname__}."


def test_each_name_in_the_table_is_that_of_a_function() -> None:
    """A function that gets another name would count as a part of its caller."""
    functions = list(list_functions(hit_counter, redirects, protocol))
    for beginning in [beginning for part in PARTS.values() for beginning in part]:
        if beginning.startswith((hit_counter.__name__, redirects.__name__, protocol.__name__)):
            name = beginning.partition("<locals>")[0]
            assert [function for function in functions if function.startswith(name)], beginning
