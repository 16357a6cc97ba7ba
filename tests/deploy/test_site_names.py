"""What may be an address, and what a site may be called."""

import pytest

from feddiv.core.errors import UserError
from feddiv.deploy.site_names import address, site_names


@pytest.mark.parametrize(
    ("text", "listen", "local"),
    [
        ("superlink.example.org:8443", "0.0.0.0", "127.0.0.1:8443"),
        ("192.0.2.7:443", "0.0.0.0", "127.0.0.1:443"),
        ("[2001:db8::7]:8443", "::", "[::1]:8443"),
        ("127.0.0.1:8443", "127.0.0.1", "127.0.0.1:8443"),
        ("localhost:8443", "127.0.0.1", "localhost:8443"),
        ("[::1]:8443", "::1", "[::1]:8443"),
    ],
)
def test_where_sites_connect_where_it_listens_and_where_the_operator_connects(text, listen, local):
    found = address(text)
    assert (str(found), found.listen, str(found.local)) == (text, listen, local)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":8443",
        "example.org",
        "example.org:",
        "example.org:0",
        "example.org:65536",
        "example.org:84a3",
        "example.org:-1",
        "https://example.org:8443",
        "example.org:8443/v1",
        "-example.org:8443",
        "exa mple.org:8443",
        "a$(id).org:8443",
        "10.0.0.300:8443",
        "2001:db8::7:8443",
        "[192.0.2.7]:8443",
        "[fe80::1%eth0]:8443",
        "0.0.0.0:8443",
        "[::]:8443",
        "224.0.0.1:8443",
        "a" * 64 + ".org:8443",
    ],
)
def test_an_address_that_no_site_could_use_is_refused_by_name(text):
    with pytest.raises(UserError, match="--address=") as refusal:
        address(text)
    assert "\n" not in str(refusal.value)


def test_names_come_between_commas_or_spaces_or_in_several_options():
    assert site_names(["north,south", "east  far-west_2"]) == (
        "north",
        "south",
        "east",
        "far-west_2",
    )


@pytest.mark.parametrize(
    "given",
    [
        [],
        [" , "],
        ["../etc"],
        ["a/b"],
        [".hidden"],
        ["-n"],
        ["end."],
        ["ä"],
        ["a;b"],
        ["a" * 64],
        ["north", "North"],
    ],
)
def test_a_name_that_is_no_file_name_or_comes_twice_is_refused(given):
    with pytest.raises(UserError, match="--sites"):
        site_names(given)
