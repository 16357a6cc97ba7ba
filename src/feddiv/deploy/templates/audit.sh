#!/bin/sh
# Audits the labels of the registered sites without training a model; each gets labels.csv and labels.html.
#   ./audit.sh                         each site brings its own: a file of predicted probabilities, or a classifier
#   ./audit.sh model.weights=FILE      one classifier for all, of the net that experiment.toml names
#   ./audit.sh resume=true             goes on with the audit in audit/ after a stop
# Classes and sites are those of experiment.toml. A site whose file is no good stays out, the others go on.
@ENVIRONMENT@
FEDDIV_RUN="${FEDDIV_RUN:-$HERE/audit}"
export FEDDIV_RUN

for setting in "$@"; do
    case $setting in
    resume=true) exec "$HERE/run.sh" "$@" ;; # what it is, is in its own config.toml
    model.weights=* | model.name=*) shared=yes ;;
    esac
done
[ -n "${shared:-}" ] || set -- model.name=predictions data.standardise=source "$@"
exec "$HERE/run.sh" method.name=feddiv-audit rounds=1 warmup.iterations=0 clients.fraction=1.0 federation.least=1 "$@"
