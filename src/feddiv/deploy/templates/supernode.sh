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
# For audits without training (server/audit.sh): a file of this site's predicted probabilities, or its own
# classifier: a run's folder, a model.safetensors, or package.module:factory.
OWN="${FEDDIV_SITE_PROBABILITIES:+ probabilities=\"$FEDDIV_SITE_PROBABILITIES\"}${FEDDIV_SITE_CLASSIFIER:+ classifier=\"$FEDDIV_SITE_CLASSIFIER\"}"
# What this site's experts decided about its labels, such as "$STATE/corrections.csv"; without it, nobody did.
CORRECTIONS="${FEDDIV_SITE_CORRECTIONS:+ corrections=\"$FEDDIV_SITE_CORRECTIONS\"}"
# What a server may ask of this site, as "most-epochs=20 least-samples=50"; without it, the usual limits.
LIMITS="${FEDDIV_SITE_LIMITS:+ $FEDDIV_SITE_LIMITS}"
# A free port of this machine, for Flower's own processes; a second SuperNode needs another.
PORT="${FEDDIV_SITE_PORT:-9094}"

NODE="data-path='$DATA' site-path='$STATE'"
if [ ! -e "$DATA" ]; then
    # Probabilities with labels are enough for an audit.
    [ -n "${FEDDIV_SITE_PROBABILITIES:-}" ] && [ -z "${FEDDIV_SITE_DATA:-}" ] ||
        fail "no data at $DATA; put them there or set FEDDIV_SITE_DATA"
    NODE="site-path='$STATE'"
fi
case "$DATA$STATE" in
*\'*) fail "the path $DATA or $STATE has a quote in it: Flower cannot be told of it" ;;
esac
for named in "${FEDDIV_SITE_ENCODER:-}" "${FEDDIV_SITE_PROBABILITIES:-}" "${FEDDIV_SITE_CLASSIFIER:-}" \
    "${FEDDIV_SITE_CORRECTIONS:-}"; do
    case "$named" in
    *\"*) fail "$named has a quote in it: Flower cannot be told of it" ;;
    esac
done
mkdir -p "$STATE"
# Flower's SuperNode, and beside it one process that has the app loaded for all messages.
exec feddiv deploy supernode --port "$PORT" --superlink "@ADDRESS@" --root-certificates "$HERE/ca.crt" \
    --auth-supernode-private-key "$HERE/node.key" \
    --node-config "$NODE$ALLOWED$ENCODER$OWN$CORRECTIONS$LIMITS"
