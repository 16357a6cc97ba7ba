#!/bin/sh
# Tells the running SuperLink the public keys of the sites: keys/NAME.pub for the site NAME.
# May be called again: sites that were added are added, and a key that was replaced loses its rights.
@ENVIRONMENT@
@CONNECTION@
bad=0
for key in "$HERE"/keys/*.pub; do
    [ -e "$key" ] || fail "no public key in $HERE/keys"
    name=$(basename "$key" .pub)
    answer=$(flwr supernode register "$key" feddiv --name "$name" --format json 2>&1) || true
    case $answer in
    *'"success": true'*)
        if [ -f "$HERE/keys/$name.id" ]; then
            flwr supernode unregister "$(cat "$HERE/keys/$name.id")" feddiv >/dev/null ||
                fail "$name: its new key is registered, but the old one still is too: call unregister.sh"
            echo "$name: registered, in place of its old key"
        else
            echo "$name: registered"
        fi
        # Flower's number of the site, which unregister.sh needs.
        printf '%s\n' "$answer" | sed -n 's/.*"node-id": "*\([0-9][0-9]*\).*/\1/p' >"$HERE/keys/$name.id"
        ;;
    *"already in use"*) echo "$name: was registered before" ;;
    *)
        echo "$name: not registered: $answer" >&2
        bad=1
        ;;
    esac
done
exit $bad
