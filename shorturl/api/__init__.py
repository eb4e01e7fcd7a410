"""The JSON API, with its OpenAPI description at /api/openapi.json and its docs at /api/docs."""

from shorturl.api import link_visits, links
from shorturl.api.app import api

api.add_router("", links.router)
api.add_router("", link_visits.router)

__all__ = ["api"]
