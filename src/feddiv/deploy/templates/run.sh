#!/bin/sh
# Runs the experiment on the registered sites and follows it.
#   ./run.sh                           a new run in run/
#   ./run.sh resume=true               goes on with the run in run/ after a stop
#   ./run.sh resume=true allow=my.module:Method   and its config.toml may import this
#   ./run.sh rounds=50 train.lr=0.01   instead of what experiment.toml says
# Ctrl-C only ends the watching; to stop the run: FLWR_HOME=flwr flwr stop RUN-ID feddiv
@ENVIRONMENT@
@CONNECTION@
OUT="${FEDDIV_RUN:-$HERE/run}"
case "$HERE$OUT" in
*\'*) fail "the path $HERE or $OUT has a quote in it: Flower cannot be told of it" ;;
esac

resume=false
allow=
settings=
for setting in "$@"; do
    case $setting in
    resume=true | resume=false) resume=${setting#resume=} ;;
    *[\'\"\\[:space:]]*) fail "'$setting': quotes and spaces do not get through; write it into experiment.toml" ;;
    allow=?*) allow="$allow ${setting#allow=}" ;;
    *-*=*) case ${setting%%=*} in
        *-*) fail "'$setting': keys are written as in experiment.toml, with dots: train.lr=0.01" ;;
        *) settings="$settings $setting" ;;
        esac ;;
    ?*=?*) settings="$settings $setting" ;;
    *) fail "'$setting' is no setting; write KEY=VALUE" ;;
    esac
done
experiment="config='$HERE/experiment.toml'"
if [ "$resume" = true ]; then
    experiment= # it is in the run's own config.toml
    [ -f "$OUT/config.toml" ] || fail "$OUT holds no run to go on with"
    [ ! -f "$OUT/summary.json" ] || fail "the run in $OUT is finished"
else
    [ ! -e "$OUT/config.toml" ] ||
        fail "$OUT holds a run: move it away, or go on with it: ./run.sh resume=true"
fi

flwr run "$HERE/app" feddiv --stream \
    --run-config "$experiment out='$OUT' resume=$resume allow='$allow' settings='$settings'" ||
    fail "Flower did not run it; the reason is above"

# Flower's exit code does not tell how the run ended. The summary is written last.
[ -f "$OUT/config.toml" ] || fail "the run did not begin; the reason is above"
[ -f "$OUT/summary.json" ] ||
    fail "the run did not finish; the reason is above, and ./run.sh resume=true goes on with it"
echo "Finished: $OUT"
