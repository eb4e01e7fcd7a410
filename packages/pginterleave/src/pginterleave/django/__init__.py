"""The adapter for Django's connections and cursors, with psycopg or psycopg2."""

from pginterleave.django.database import DjangoDatabase

__all__ = ["DjangoDatabase"]
