# The default target is the service. `--target lab` is the service with the lab, `--target loadtest`
# is Locust, `--target pgbouncer` is a PgBouncer.
# Python 3.13: every locked package but gunicorn's parser has a wheel for it, on amd64 and arm64.

FROM python:3.13-slim AS base
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin shorturl
WORKDIR /app


FROM base AS loadtest
COPY requirements/loadtests.txt ./
RUN pip install --no-cache-dir --no-deps --require-hashes -r loadtests.txt
# deploy/loadtest.yml mounts loadtests/, which the scripts import from.
ENV PYTHONPATH=/app
# The volume that is mounted here gets this owner. Everything else is read-only.
RUN install --directory --owner=shorturl reports
USER 10001
ENTRYPOINT ["locust"]


FROM debian:bookworm-slim AS pgbouncer
RUN apt-get update && apt-get install --yes --no-install-recommends pgbouncer && \
    rm -rf /var/lib/apt/lists/*
COPY deploy/pgbouncer.ini deploy/pgbouncer.sh /etc/pgbouncer/
USER 10001
EXPOSE 6432
CMD ["sh", "/etc/pgbouncer/pgbouncer.sh"]


# gunicorn's parser is compiled: this image has the C compiler that the slim one lacks.
FROM python:3.13 AS parser
COPY requirements/parser.txt ./
# What builds it is pinned, too, and nothing else is fetched.
COPY requirements/local.txt ./
RUN grep -A 2 '^setuptools==' local.txt >build.txt && \
    pip install --no-cache-dir --no-deps --require-hashes -r build.txt && \
    pip wheel --no-cache-dir --no-deps --no-build-isolation --require-hashes --wheel-dir /wheels -r parser.txt


FROM base AS build
COPY requirements/production.txt ./
COPY --from=parser /wheels /wheels
RUN python -m venv /venv && \
    /venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r production.txt && \
    /venv/bin/pip install --no-cache-dir --no-deps /wheels/*
COPY manage.py ./
COPY project/ project/
COPY shorturl/ shorturl/
# Production settings, so that the names of static files have hashes. Nothing connects to this
# database, and the key is not kept.
RUN SHORTURL_LOCAL=off DATABASE_URL=postgres:///unused ALLOWED_HOSTS=unused \
    SECRET_KEY="$(python -c 'import secrets; print(secrets.token_urlsafe(50))')" \
    /venv/bin/python manage.py collectstatic --noinput


FROM build AS build-lab
COPY lab/ lab/
COPY packages/pginterleave/src/pginterleave/ pginterleave/
RUN SHORTURL_LOCAL=off DATABASE_URL=postgres:///unused ALLOWED_HOSTS=unused SHORTURL_LAB=on \
    SECRET_KEY="$(python -c 'import secrets; print(secrets.token_urlsafe(50))')" \
    /venv/bin/python manage.py collectstatic --noinput


FROM base AS service
COPY --from=build /venv /venv
COPY --from=build /app /app
# SHORTURL_LOCAL=off: without DATABASE_URL the container stops.
ENV PATH=/venv/bin:$PATH SHORTURL_LOCAL=off HOST=0.0.0.0 PORT=8000
USER 10001
EXPOSE 8000
# http.client, because urllib would use a proxy that the environment names.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['PORT']), timeout=3); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]
# A list, so that SIGTERM reaches gunicorn, which finishes requests in flight.
CMD ["gunicorn", "-c", "project/gunicorn.py"]


FROM service AS lab
COPY --from=build-lab /app /app


# The default target is the last one.
FROM service
