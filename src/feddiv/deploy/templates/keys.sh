# What register.sh did, as files NAME=ID: the key that Flower knows by this number. (Flower tells
# neither names nor keys of its nodes, and keeps a key that was taken away: it cannot come back.)
KNOWN="$HERE/keys/registered"
mkdir -p "$KNOWN"

take_away() { # NAME=ID
    told=$(flwr supernode unregister "${1##*=}" feddiv 2>&1) || case $told in
    *"not found"*) ;; # of a SuperLink whose database is gone
    *)
        echo "${1%=*}: a key is still registered: $told" >&2
        return 1
        ;;
    esac
    rm -f "$KNOWN/$1"
}
