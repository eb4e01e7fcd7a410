"""The tables of a recipe: those of the models in its file, which a project has from migrations."""

from collections.abc import Iterator

import pytest
from django.db import connection, models

from pginterleave.pytest_plugin import Interleave


@pytest.fixture(autouse=True)
def tables(request: pytest.FixtureRequest, interleave: Interleave) -> Iterator[None]:
    made = [
        each
        for each in vars(request.module).values()
        if isinstance(each, type)
        and issubclass(each, models.Model)
        and each.__module__ == request.module.__name__
    ]
    with connection.schema_editor() as editor:
        for model in made:
            editor.create_model(model)
    yield
    with connection.schema_editor() as editor:
        for model in reversed(made):
            editor.delete_model(model)
