#!/bin/sh
# Runs the experiment on the registered sites and follows it.
#   ./run.sh                 a new run in run/
#   ./run.sh resume=true     goes on with the run in run/ after a stop
#   ./run.sh rounds=50       instead of what experiment.toml says; app/pyproject.toml lists such keys
# Ctrl-C only ends the watching; to stop the run: FLWR_HOME=flwr flwr stop RUN-ID feddiv
@ENVIRONMENT@
@CONNECTION@
OUT="${FEDDIV_RUN:-$HERE/run}"
case "$HERE$OUT" in
*\'*) fail "the path $HERE or $OUT has a quote in it: Flower cannot be told of it" ;;
esac

settings="config='$HERE/experiment.toml' out='$OUT'"
for setting in "$@"; do
    case $setting in
    ?*=?*) settings="$settings $setting" ;;
    *) fail "'$setting' is no setting; write KEY=VALUE" ;;
    esac
done
flwr run "$HERE/app" feddiv --stream --run-config "$settings"

# Flower's exit code does not tell how the run ended. The summary is written last.
[ -f "$OUT/summary.json" ] ||
    fail "the run did not finish; the reason is above, and ./run.sh resume=true goes on with it"
echo "Finished: $OUT"
