# Flower wants the certificate's absolute path in its config: it has to follow the folder.
certificate=$(sed -n 's/^root-certificates = "\(.*\)"$/\1/p' "$FLWR_HOME/config.toml")
cmp -s "$certificate" "$HERE/ca.crt" ||
    fail "this folder was moved: set root-certificates = \"$HERE/ca.crt\" in $FLWR_HOME/config.toml"
