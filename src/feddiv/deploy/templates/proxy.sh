#!/bin/sh
# nginx in front of the SuperLink: sites get through, nobody gets to the Control and Runtime API.
# Runs until Ctrl-C or SIGTERM; proxy/nginx.conf says what it lets through.
set -eu
umask 077
HERE=$(cd "$(dirname "$0")" && pwd)
PATH="$PATH:/usr/sbin:/usr/local/sbin"

command -v nginx >/dev/null 2>&1 || {
    echo "proxy.sh: nginx is not on the PATH; install it (1.19.5 or later)" >&2
    exit 2
}
mkdir -p "$HERE/proxy/scratch"
exec nginx -p "$HERE/proxy" -c "$HERE/proxy/nginx.conf" -e stderr
