#!/bin/sh
# Start PgBouncer with the password in PGPASSWORD, which so is in no image and in no file of a disk.
set -eu
umask 077
quoted=$(printf %s "$PGPASSWORD" | sed 's/"/""/g')
printf '"shorturl" "%s"\n' "$quoted" > /tmp/users.txt
exec pgbouncer /etc/pgbouncer/pgbouncer.ini
