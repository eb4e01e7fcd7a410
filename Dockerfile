# The service. `--target lab` has the lab besides; `--target loadtest` is Locust instead, and
# `--target pgbouncer` a PgBouncer.
# 3.13: every locked package has a wheel for it, on amd64 and arm64, so nothing is compiled.

FROM python:3.13-slim AS base
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin shorturl
WORKDIR /app


FROM base AS loadtest
COPY locks/loadtests.txt ./
RUN pip install --no-cache-dir --no-deps --require-hashes -r loadtests.txt
# docker-compose.yml mounts loadtests/, which the scripts import from.
ENV PYTHONPATH=/app
# A volume that is mounted here is its own: the rest is read-only.
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


FROM base AS build
COPY locks/production.txt ./
RUN python -m venv /venv && \
    /venv/bin/pip install --no-cache-dir --no-deps --require-hashes -r production.txt
COPY manage.py ./
COPY project/ project/
COPY shorturl/ shorturl/
# With a production's settings, so that the names have their hashes. Nothing connects to this
# database, and the key is gone with the command.
RUN SHORTURL_LOCAL=off DATABASE_URL=postgres:///unused ALLOWED_HOSTS=unused \
    SECRET_KEY="$(python -c 'import secrets; print(secrets.token_urlsafe(50))')" \
    /venv/bin/python manage.py collectstatic --noinput


FROM build AS build-lab
COPY lab/ lab/
COPY pginterleave/src/pginterleave/ pginterleave/
RUN SHORTURL_LOCAL=off DATABASE_URL=postgres:///unused ALLOWED_HOSTS=unused SHORTURL_LAB=on \
    SECRET_KEY="$(python -c 'import secrets; print(secrets.token_urlsafe(50))')" \
    /venv/bin/python manage.py collectstatic --noinput


FROM base AS service
COPY --from=build /venv /venv
COPY --from=build /app /app
# Without DATABASE_URL the container stops, and does not look for an embedded PostgreSQL.
ENV PATH=/venv/bin:$PATH SHORTURL_LOCAL=off HOST=0.0.0.0 PORT=8000
USER 10001
EXPOSE 8000
# http.client, because urllib would ask a proxy that the environment may name.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import http.client, os, sys; c = http.client.HTTPConnection('127.0.0.1', int(os.environ['PORT']), timeout=3); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]
# As a list, so that SIGTERM reaches gunicorn and requests in flight are finished.
CMD ["gunicorn", "-c", "project/gunicorn.py"]


FROM service AS lab
COPY --from=build-lab /app /app


# What a build without --target makes.
FROM service
