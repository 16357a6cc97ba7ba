#!/bin/sh
# One site's SuperNode: it calls the SuperLink at @ADDRESS@ and answers with what it
# learned from this site's data. Nothing connects to the site from outside. Runs until Ctrl-C or SIGTERM.
@ENVIRONMENT@
# The site's data: a folder with one folder of images per class, a .csv or .parquet table, or an .npz file.
DATA="${FEDDIV_SITE_DATA:-$HERE/data}"
# The site's own notes: its memory between rounds and labels.csv and labels.html, the audit of its labels. They stay here.
STATE="${FEDDIV_SITE_STATE:-$HERE/site}"
# Code that the server may name and this site runs, by import path: a method and a net of your own.
ALLOWED="${FEDDIV_SITE_METHOD:+ allow-method=\"$FEDDIV_SITE_METHOD\"}${FEDDIV_SITE_NET:+ allow-net=\"$FEDDIV_SITE_NET\"}"
# This site's copy of an encoder that is no name of feddiv's: FILE.onnx, or package.module:factory.
ENCODER="${FEDDIV_SITE_ENCODER:+ encoder=\"$FEDDIV_SITE_ENCODER\"}"
# What a server may ask of this site, as "most-epochs=20 least-samples=50"; without it, the usual limits.
LIMITS="${FEDDIV_SITE_LIMITS:+ $FEDDIV_SITE_LIMITS}"
# A free port of this machine, for Flower's own processes; a second SuperNode needs another.
PORT="${FEDDIV_SITE_PORT:-9094}"

[ -e "$DATA" ] || fail "no data at $DATA; put them there or set FEDDIV_SITE_DATA"
case "$DATA$STATE" in
*\'*) fail "the path $DATA or $STATE has a quote in it: Flower cannot be told of it" ;;
esac
case "${FEDDIV_SITE_ENCODER:-}" in
*\"*) fail "the encoder $FEDDIV_SITE_ENCODER has a quote in it: Flower cannot be told of it" ;;
esac
mkdir -p "$STATE"
# Flower's SuperNode, and beside it one process that has the app loaded for all messages.
exec feddiv deploy supernode --port "$PORT" --superlink "@ADDRESS@" --root-certificates "$HERE/ca.crt" \
    --auth-supernode-private-key "$HERE/node.key" \
    --node-config "data-path='$DATA' site-path='$STATE'$ALLOWED$ENCODER$LIMITS"
