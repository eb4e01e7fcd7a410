#!/bin/sh
# Start PgBouncer with the password in PGPASSWORD. /tmp is in memory: no image and no disk holds it.
set -eu
umask 077
quoted=$(printf %s "$PGPASSWORD" | sed 's/"/""/g')
printf '"shorturl" "%s"\n' "$quoted" > /tmp/users.txt
exec pgbouncer /etc/pgbouncer/pgbouncer.ini
