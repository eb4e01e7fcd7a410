"""The adapter for Django's connections and cursors, with psycopg or psycopg2."""
