#!/bin/sh
# Tells the running SuperLink the public keys of the sites: keys/NAME.pub for the site NAME.
# May be called again, after a key was added: the others stay as they are.
@ENVIRONMENT@
@CONNECTION@
bad=0
for key in "$HERE"/keys/*.pub; do
    [ -e "$key" ] || fail "no public key in $HERE/keys"
    name=$(basename "$key" .pub)
    answer=$(flwr supernode register "$key" feddiv --name "$name" --format json 2>&1) || true
    case $answer in
    *'"success": true'*) echo "$name: registered" ;;
    *"already in use"*) echo "$name: was registered before" ;;
    *)
        echo "$name: not registered: $answer" >&2
        bad=1
        ;;
    esac
done
exit $bad
