#!/bin/sh
# Tells the running SuperLink the public keys of the sites: keys/NAME.pub for the site NAME.
# May be called again: sites that were added are added, and a key that was replaced loses its rights.
@ENVIRONMENT@
@CONNECTION@
@KEYS@
bad=0
for key in "$HERE"/keys/*.pub; do
    [ -e "$key" ] || fail "no public key in $HERE/keys"
    name=$(basename "$key" .pub)
    answer=$(flwr supernode register "$key" feddiv --name "$name" --format json 2>&1) || true
    id=$(printf '%s\n' "$answer" | sed -n 's/.*"node-id": "*\([0-9][0-9]*\).*/\1/p')
    said=
    case $answer in
    *'"success": true'*)
        said=registered
        for known in "$KNOWN/$name="*; do # of the same key, if the SuperLink forgot it
            ! cmp -s "$known" "$key" || rm -f "$known"
        done
        cp "$key" "$KNOWN/$name=$id"
        ;;
    *"already in use"*)
        for known in "$KNOWN/$name="*; do
            ! cmp -s "$known" "$key" || said="was registered before"
        done
        answer="this key was taken away before, or is another site's; make a new one"
        ;;
    esac
    for known in "$KNOWN/$name="*; do
        if [ -e "$known" ] && ! cmp -s "$known" "$key"; then
            take_away "$(basename "$known")" && said="${said:+$said, }its old key is no longer" || bad=1
        fi
    done
    if [ -n "$said" ]; then
        echo "$name: $said"
    fi
    case $said in
    registered* | was*) ;;
    *)
        echo "$name: not registered: $answer" >&2
        bad=1
        ;;
    esac
done
exit $bad
