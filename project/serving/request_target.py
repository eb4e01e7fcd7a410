"""The target of a request in absolute form, as a client sends it to a proxy.

https://www.rfc-editor.org/rfc/rfc9112#name-absolute-form
"""

import re
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import unquote_to_bytes

ABSOLUTE_FORM = re.compile(rb"https?://([^/]*)(/.*)?", re.IGNORECASE | re.DOTALL)


def use_origin_form(scope: MutableMapping[str, Any]) -> None:
    """Change the scope of a request in absolute form to that of the same request in origin form.

    The host of the target takes the place of the header Host. Without that header, Django refuses
    the request: HTTP/1.1 requires it in both forms.
    """
    if not (match := ABSOLUTE_FORM.fullmatch(scope["raw_path"])):
        return
    host, raw_path = match[1], match[2] or b"/"
    scope["raw_path"] = raw_path
    scope["path"] = unquote_to_bytes(raw_path).decode(errors="replace")  # as gunicorn does
    scope["headers"] = [
        (name, host if name == b"host" else value) for name, value in scope["headers"]
    ]
