"""Certificates and keys of a deployment: an authority, the server's certificate, a key per site.

Elliptic curves of NIST, because Flower takes no others for its nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_YEARS = 10
# Longer than most federations last, and the longest that some TLS clients accept.
SERVER_DAYS = 825
# Clocks of the sites may be behind the server's.
_EARLIER = timedelta(days=1)

Host = str | IPv4Address | IPv6Address


@dataclass(frozen=True)
class KeyPair:
    """A private key and what is public of it, as they are written to files."""

    private: bytes
    public: bytes


class Authority:
    """A new certificate authority, whose only use is to sign this deployment's server."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP384R1())
        now = datetime.now(UTC)
        name = _name("feddiv deployment authority")
        self._certificate = (
            _unsigned(name, name, self._key.public_key())
            .not_valid_before(now - _EARLIER)
            .not_valid_after(now + timedelta(days=365 * AUTHORITY_YEARS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(self._identifier(), critical=False)
            .sign(self._key, hashes.SHA384())
        )

    def pair(self) -> KeyPair:
        """The authority's own key (PKCS 8) and certificate (PEM)."""
        return KeyPair(_pem(self._key), self._certificate.public_bytes(Encoding.PEM))

    def server(self, hosts: Sequence[Host]) -> KeyPair:
        """A key and a certificate for a server that is reached under these names and addresses."""
        key = ec.generate_private_key(ec.SECP384R1())
        now = datetime.now(UTC)
        alternatives = [
            x509.DNSName(host) if isinstance(host, str) else x509.IPAddress(host)
            for host in dict.fromkeys(hosts)
        ]
        certificate = (
            _unsigned(_name("feddiv SuperLink"), self._certificate.subject, key.public_key())
            .not_valid_before(now - _EARLIER)
            .not_valid_after(now + timedelta(days=SERVER_DAYS))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier()),
                critical=False,
            )
            .sign(self._key, hashes.SHA384())
        )
        return KeyPair(_pem(key), certificate.public_bytes(Encoding.PEM))

    def _identifier(self) -> x509.SubjectKeyIdentifier:
        return x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())


def node_key(name: str) -> KeyPair:
    """A site's key pair in OpenSSH's format, as `ssh-keygen -t ecdsa -b 384` makes it."""
    key = ec.generate_private_key(ec.SECP384R1())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return KeyPair(
        key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
        public + f" {name}\n".encode(),
    )


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
