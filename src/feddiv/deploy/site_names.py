"""What a user calls the server and the sites, checked before anything is written."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from feddiv.core.errors import UserError

# Names become files, arguments and Flower's node names, on systems that may ignore case.
_SITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_LABEL = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)")


@dataclass(frozen=True)
class ServerAddress:
    """Where the sites find the SuperLink."""

    host: str | IPv4Address | IPv6Address
    port: int

    def __str__(self) -> str:
        return f"{_bracketed(self.host)}:{self.port}"

    @property
    def local(self) -> "ServerAddress":
        """The same SuperLink, called from its own machine."""
        if self.on_this_machine_only:
            return self
        return ServerAddress(ip_address("::1" if self._ipv6 else "127.0.0.1"), self.port)

    @property
    def inner(self) -> int:
        """A port beside it, for what stands behind a proxy."""
        return self.port + 1 if self.port < 65535 else self.port - 1

    @property
    def listen(self) -> str:
        """What the SuperLink binds: all interfaces, because a public address may be a router's."""
        if self.on_this_machine_only:
            return "127.0.0.1" if isinstance(self.host, str) else str(self.host)
        return "::" if self._ipv6 else "0.0.0.0"

    @property
    def _ipv6(self) -> bool:
        return isinstance(self.host, IPv6Address)

    @property
    def on_this_machine_only(self) -> bool:
        """Whether it is a loopback address."""
        return self.host == "localhost" if isinstance(self.host, str) else self.host.is_loopback


def _bracketed(host: str | IPv4Address | IPv6Address) -> str:
    return f"[{host}]" if isinstance(host, IPv6Address) else str(host)


def address(text: str) -> ServerAddress:
    """HOST:PORT, with a name, an IPv4 address or an IPv6 address in brackets."""
    host, colon, port = text.strip().rpartition(":")
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    if not (colon and host and digits and 1 <= int(port) <= 65535):
        raise UserError(
            f"--address={text}: not HOST:PORT with a port from 1 to 65535, "
            "such as superlink.example.org:8443 or 192.0.2.7:8443"
        )
    return ServerAddress(_host(host, text), int(port))


def _host(host: str, text: str) -> str | IPv4Address | IPv6Address:
    inner = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        found = ip_address(inner)
    except ValueError:
        return _dns(host, text)
    if isinstance(found, IPv6Address) != (inner != host) or getattr(found, "scope_id", None):
        raise UserError(
            f"--address={text}: an IPv6 address stands in brackets, as [2001:db8::7]:8443"
        )
    if found.is_unspecified or found.is_multicast:
        raise UserError(f"--address={text}: not an address that sites can connect to")
    return found


def _dns(host: str, text: str) -> str:
    labels = host.split(".")
    # A last label of digits only is a mistyped IPv4 address, such as 10.0.0.300.
    if (
        len(host) > 253
        or labels[-1].isdigit()
        or not all(_LABEL.fullmatch(label) for label in labels)
    ):
        raise UserError(f"--address={text}: {host!r} is neither a host name nor an IP address")
    return host.lower()


def site_names(given: Sequence[str]) -> tuple[str, ...]:
    """The names of the sites, from options that may each hold several between commas or spaces."""
    names = [name for text in given for name in re.split(r"[,\s]+", text) if name]
    if not names:
        raise UserError("--sites: no name given; write --sites north,south,east")
    seen: dict[str, str] = {}
    for name in names:
        if not _SITE.fullmatch(name) or name.endswith("."):
            raise UserError(
                f"--sites={name}: allowed are up to 63 letters, digits, dots, dashes and "
                "underscores, a letter or digit first, no dot last"
            )
        if name.casefold() in seen:
            raise UserError(f"--sites={name}: the same name as {seen[name.casefold()]}")
        seen[name.casefold()] = name
    return tuple(names)
