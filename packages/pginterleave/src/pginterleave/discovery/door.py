"""The door of requests: Django's handler, through which every test client sends them.

`BaseHandler.get_response` and `get_response_async` have no underscore, and no page of Django's. The
clients of Django, of the REST framework, of Ninja and of WebTest come through one of them.
"""

import contextlib
import functools
import io
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

from asgiref.sync import async_to_sync, sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.base import BaseHandler
from django.core.handlers.wsgi import WSGIRequest
from django.db import models
from django.test import override_settings
from django.urls import Resolver404, resolve

from pginterleave.discovery.candidates import Candidate, Listener, write_answer
from pginterleave.discovery.private_names import ERROR_OF_VIEW, OF_THE_BODY
from pginterleave.django.own_objects import load_again


@contextlib.contextmanager
def open_door(listener: Callable[[], Listener]) -> Iterator[None]:
    """Enter to tell the present listener of every request that Django's handler gets."""
    handle = BaseHandler.get_response
    handle_async = BaseHandler.get_response_async

    def get_response(handler: BaseHandler, request: Any) -> Any:
        candidate = make_candidate(handler, handle, request)
        listener().explore(candidate)
        with listener().note(candidate) as answers:
            response = handle(handler, request)
            answers.append(write_answer(response))
        return response

    async def get_response_async(handler: BaseHandler, request: Any) -> Any:
        candidate = make_candidate(handler, async_to_sync(handle_async), request)
        await sync_to_async(listener().explore)(candidate)
        with listener().note(candidate) as answers:
            response = await handle_async(handler, request)
            answers.append(write_answer(response))
        return response

    with patch.multiple(
        BaseHandler, get_response=get_response, get_response_async=get_response_async
    ):
        yield


def make_candidate(handler: BaseHandler, handle: Callable[..., Any], request: Any) -> Candidate:
    """Return a request as a candidate; nothing is read of the request before the first run."""
    prepare = functools.cache(lambda: _prepare_copies(request))

    def run() -> str:
        make_copy = prepare()
        copy = make_copy()
        response = handle(handler, copy)
        if error := getattr(copy, ERROR_OF_VIEW, None):
            raise error
        return write_answer(response)

    return Candidate(f"{request.method} {_find_view(request)}", run)


def _find_view(request: Any) -> str:
    """Return the name of a request's view, such as shop:redeem, or the path of its function."""
    try:  # of a view without a name it is the function's path
        return str(resolve(request.path_info).view_name)
    except Resolver404:
        return str(request.path_info)


def _prepare_copies(request: Any) -> Callable[[], Any]:
    """Read the body of a request, and return what makes a fresh copy of the request."""
    with override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=None):  # a file may be larger
        body = request.body  # the test's own request keeps it, too

    def make_plain_copy() -> Any:
        if isinstance(request, ASGIRequest):
            return ASGIRequest(dict(request.scope), io.BytesIO(body))
        return WSGIRequest({**request.environ, "wsgi.input": io.BytesIO(body)})

    names = vars(request).keys() - vars(make_plain_copy()).keys() - OF_THE_BODY
    added = {name: vars(request)[name] for name in names}

    def make_copy() -> Any:
        copy = make_plain_copy()
        for name, value in added.items():  # such as the user that force_authenticate() is given
            setattr(copy, name, _load_again(value))
        return copy

    return make_copy


def _load_again(value: Any) -> Any:
    """Return a saved row of a model, loaded again; any other value as it is."""
    is_row = issubclass(type(value), models.Model)  # isinstance() would load a lazy object
    return load_again(value) if is_row and value.pk is not None else value
