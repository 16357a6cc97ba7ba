set -eu
umask 077
HERE=$(cd "$(dirname "$0")" && pwd)

fail() {
    echo "$(basename "$0"): $1" >&2
    exit 2
}

# Nothing is fetched from elsewhere: no telemetry, no look for updates, no packages at run time.
export FLWR_HOME="$HERE/flwr"
export FLWR_TELEMETRY_ENABLED=0
export FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
export RAY_USAGE_STATS_ENABLED=0
# Flower's processes talk to each other on this machine: never through a proxy.
no_proxy="127.0.0.1,localhost,::1,${no_proxy:-${NO_PROXY:-}}"
export no_proxy NO_PROXY="$no_proxy"

# Flower starts its helpers by name, so the environment's programs must be on the PATH.
command -v flower-superexec >/dev/null 2>&1 ||
    fail "Flower is not on the PATH; activate the environment where pip install 'feddiv[flower]' was run"
