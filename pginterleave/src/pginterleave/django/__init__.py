"""The adapter for Django: its connections and cursors, with psycopg or psycopg2 below them."""

from pginterleave.django.database import DjangoDatabase

__all__ = ["DjangoDatabase"]
