#!/bin/sh
# A site leaves for good: ./unregister.sh NAME. Its key is refused from now on, and deleted here.
@ENVIRONMENT@
@CONNECTION@
@KEYS@
[ $# -eq 1 ] || fail "name one site: ./unregister.sh NAME"
case $1 in
*/* | *=*) fail "'$1' is no name of a site" ;;
esac
found=
for known in "$KNOWN/$1="*; do
    [ -e "$known" ] || continue
    take_away "$(basename "$known")" || exit 1
    found=yes
done
[ -n "$found" ] || fail "no site '$1' was registered by register.sh"
rm -f "$HERE/keys/$1.pub"
echo "$1: unregistered"
