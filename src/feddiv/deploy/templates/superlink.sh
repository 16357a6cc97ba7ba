#!/bin/sh
# The SuperLink: carries messages between the server and the sites. Runs until Ctrl-C or SIGTERM.
@ENVIRONMENT@
# Where it listens. Sites connect to @ADDRESS@.
# Fleet, Control and Runtime API share this port, and only the first knows who calls: from outside
# /v1/fleet/ alone may be reached (deploy init --proxy writes a proxy for that; docs/deployment.md).
LISTEN="@LISTEN@"
PORT="@PORT@"

mkdir -p "$HERE/state"
# The database keeps the registered keys, so that a restart needs no new registration.
exec flower-superlink --host "$LISTEN" --port "$PORT" \
    --ssl-ca-certfile "$HERE/ca.crt" --ssl-certfile "$HERE/server.crt" --ssl-keyfile "$HERE/server.key" \
    --enable-supernode-auth --disable-runtime-dependency-installation \
    --database "$HERE/state/superlink.db"
