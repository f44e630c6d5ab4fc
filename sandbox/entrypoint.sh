#!/bin/sh
# Entry point of the image: give the command what a bare container lacks, then become it, so that signals reach it.
set -eu

# a container may be started as a user without an entry in the password file; then HOME is empty or "/"
if [ -z "${HOME:-}" ] || [ ! -w "${HOME}" ]; then
    HOME=$(mktemp -d "${TMPDIR:-/tmp}/home.XXXXXX")
    export HOME
fi
export LANG="${LANG:-C.UTF-8}"
export PYTHONUNBUFFERED="${PYTHONUNBUFFERED:-1}"

# Xvfb makes its socket here, and only root can make the folder as it must be (writable by all, sticky)
if [ ! -d /tmp/.X11-unix ]; then
    mkdir -m 1777 /tmp/.X11-unix 2>/dev/null || true
fi

if [ "$#" -eq 0 ]; then
    set -- pytest-cua doctor
fi
exec "$@"
