#!/bin/sh
# A site leaves for good: ./unregister.sh NAME. Its key is refused from now on, and deleted here.
@ENVIRONMENT@
@CONNECTION@
[ $# -eq 1 ] || fail "name one site: ./unregister.sh NAME"
case $1 in
*/*) fail "'$1' is no name of a site" ;;
esac
[ -s "$HERE/keys/$1.id" ] || fail "no site '$1' was registered by register.sh"
flwr supernode unregister "$(cat "$HERE/keys/$1.id")" feddiv >/dev/null ||
    fail "$1: still registered; the reason is above"
rm -f "$HERE/keys/$1.id" "$HERE/keys/$1.pub"
echo "$1: unregistered"
