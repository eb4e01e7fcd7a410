# The default target is the service. `--target pgbouncer` is a PgBouncer.
# Python 3.13: every locked package but gunicorn's parser has a wheel for it, on amd64 and arm64.

FROM debian:bookworm-slim AS pgbouncer
RUN apt-get update && apt-get install --yes --no-install-recommends pgbouncer && \
    rm -rf /var/lib/apt/lists/*
COPY deploy/pgbouncer.ini deploy/pgbouncer.sh /etc/pgbouncer/
USER 10001
EXPOSE 6432
CMD ["sh", "/etc/pgbouncer/pgbouncer.sh"]


# The parser is compiled: this image has the C compiler that the slim one lacks.
FROM python:3.13 AS build
WORKDIR /app
COPY requirements/production.txt ./
RUN python -m venv /venv && \
    /venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r production.txt
COPY manage.py ./
COPY project/ project/
COPY shorturl/ shorturl/
# Production settings, so that the names of static files have hashes. Nothing connects to this
# database, and the key is not kept.
RUN SHORTURL_LOCAL=off DATABASE_URL=postgres:///unused ALLOWED_HOSTS=unused \
    SECRET_KEY="$(python -c 'import secrets; print(secrets.token_urlsafe(50))')" \
    /venv/bin/python manage.py collectstatic --noinput


FROM python:3.13-slim AS service
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin shorturl
WORKDIR /app
COPY --from=build /venv /venv
COPY --from=build /app /app
# SHORTURL_LOCAL=off: without DATABASE_URL the container stops.
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    SHORTURL_LOCAL=off HOST=0.0.0.0 PORT=8000
USER 10001
EXPOSE 8000
# http.client, because urllib would use a proxy that the environment names.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['PORT']), timeout=3); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]
# A list, so that SIGTERM reaches gunicorn, which finishes requests in flight.
CMD ["gunicorn", "-c", "project/gunicorn.py"]
