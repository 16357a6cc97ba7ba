"""The cryptography that the protocols are made of, by the package `cryptography`.

It is an extra, so it is imported where it is used.
"""

from __future__ import annotations

KEY = 32  # bytes of a key, a seed and a digest
TAG = 16  # bytes that sealing adds


def derived(secret: bytes, *purpose: bytes | str, size: int = KEY) -> bytes:
    """Bytes that follow from a secret for one purpose (HKDF with SHA-256)."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    parts = [part.encode() if isinstance(part, str) else part for part in purpose]
    info = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return HKDF(SHA256(), length=size, salt=None, info=info).derive(secret)


def public_key(private: bytes) -> bytes:
    """The X25519 public key of a private one."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed(private: bytes, public: bytes) -> bytes:
    """The secret that two clients share (X25519); ValueError for a public key that is none."""
    from cryptography.hazmat.primitives.asymmetric import x25519

    theirs = x25519.X25519PublicKey.from_public_bytes(public)
    return x25519.X25519PrivateKey.from_private_bytes(private).exchange(theirs)


def keystream(key: bytes, size: int) -> bytes:
    """So many bytes that nobody without the key can tell from noise (ChaCha20)."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    return Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(size))


def sealed(key: bytes, sender: int, text: bytes, context: bytes) -> bytes:
    """Encrypted and authenticated (ChaCha20-Poly1305). A key seals one text of each sender."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    return ChaCha20Poly1305(key).encrypt(sender.to_bytes(12, "big"), text, context)


def unsealed(key: bytes, sender: int, letter: bytes, context: bytes) -> bytes:
    """The text in a sealed letter; ValueError where it was changed or meant for another context."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(key).decrypt(sender.to_bytes(12, "big"), letter, context)
    except InvalidTag:
        raise ValueError("a letter was changed on its way") from None
