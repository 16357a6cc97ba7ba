"""What a real site keeps to itself for a private filter: a secret, promises, and noisy uploads.

The secret is random and never leaves the site, so that no server can work out a site's masks or its
noise. Because they follow from it, the same question gets the same answer. And because the masks of
an exchange hide one answer only, the site promises: to a second, different question about the same
exchange it gives no answer.
"""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from feddiv.core.errors import UserError
from feddiv.core.files import settle, tensors_hash
from feddiv.federation.private_visit import Own
from feddiv.methods.contract import Message
from feddiv.privacy.options import PrivacyOptions
from feddiv.privacy.primitives import KEY, derived

SECRET, PROMISE, UPLOADS = "secret", ".promise", "noisy-uploads"


@dataclass(frozen=True)
class Needed:
    """What a site asks of a run before it takes part: one of these filters, and how little noise.

    No filters: it takes part in any run.
    """

    filters: tuple[str, ...] = ()
    largest_epsilon: float | None = None

    @classmethod
    def of(cls, node: Mapping[str, Any]) -> "Needed":
        """From a node config."""
        filters = tuple(part.strip() for part in str(node.get("need-privacy", "")).split(","))
        filters = tuple(part for part in filters if part)
        for part in filters:
            if part not in ("sum_only", "dp"):
                raise UserError(
                    f"node config need-privacy={part!r}: is unknown; allowed: sum_only, dp, or both"
                )
        largest = node.get("largest-epsilon")
        if largest is not None and (isinstance(largest, bool | str) or largest <= 0):
            raise UserError(f"node config largest-epsilon={largest!r}: give a number above 0")
        return cls(filters, None if largest is None else float(largest))

    def check(self, options: PrivacyOptions) -> None:
        """Refuse a run with less privacy."""
        if self.filters and options.filter not in self.filters:
            raise UserError(
                f"privacy.filter={options.filter}: this site takes part only with "
                f"{' or '.join(self.filters)} (need-privacy in its node config)"
            )
        largest = self.largest_epsilon
        if options.filter == "dp" and largest is not None and options.epsilon > largest:
            raise UserError(
                f"privacy.epsilon={options.epsilon:g}: this site allows {largest:g} at most "
                "(largest-epsilon in its node config)"
            )


def site_secret(folder: Path) -> bytes:
    """The site's own secret, made when it is first needed; nobody else may read its file."""
    file = folder / SECRET
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        _write_once(file, os.urandom(KEY))
    secret = file.read_bytes()
    if len(secret) != KEY:
        raise UserError("privacy: the site's secret is damaged: its log says where")
    return secret


@dataclass(frozen=True)
class SitePrivacy:
    """One visit at a site. `folder` is the site's, `kept` that of the run and the client."""

    options: PrivacyOptions
    folder: Path
    kept: Path
    run: str
    version: str  # of the visit: which exchange, which attempt

    def own(self) -> Own | None:
        """What the visit needs of the site."""
        if self.options.filter == "none":
            return None
        return Own(derived(site_secret(self.folder), "run", self.run), self._grant)

    def promise(self, message: Message, start: str) -> None:
        """Answer this and, for the same step of the same exchange, never anything else."""
        digest = hashlib.sha256(f"{message.kind}\n{start}\n".encode())
        for name in sorted(message.payload):
            value = np.asarray(message.payload[name], np.float64)
            digest.update(f"{name} {value.shape}\n".encode() + value.tobytes())
        for name in sorted(message.weights):
            digest.update(f"{name} {tensors_hash(message.weights[name])}\n".encode())
        self.kept.mkdir(parents=True, exist_ok=True)
        step = message.kind if message.kind.startswith("privacy ") else "exchange"
        file = self.kept / f"{self.version}-{step.replace(' ', '-')}{PROMISE}"
        text = digest.hexdigest().encode()
        _write_once(file, text)
        if file.read_bytes() != text:
            raise UserError(
                f"privacy: the server asks for {message.kind!r} of exchange {self.version} once "
                "more, and otherwise; both answers together would undo the masks"
            )

    def _grant(self, name: str, mark: bytes, before: int) -> bool:
        """Whether a noisy total may be sent: a new one only as often as the run may have."""
        file = self.kept / UPLOADS
        known = file.read_text().splitlines() if file.is_file() else []
        line = f"{name} {hashlib.sha256(self.version.encode() + mark).hexdigest()}"
        if line in known:
            return True
        count = sum(each.rpartition(" ")[0] == name for each in known)
        if count >= (self.options.uploads or 0):
            return False
        self.kept.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as journal:
            journal.write(line + "\n")
        settle(file)
        return True


def _write_once(file: Path, content: bytes) -> None:
    """Write a file that only its owner may read, unless there is one already."""
    temporary = file.with_name(f".{file.name}-{os.getpid()}-{os.urandom(4).hex()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        with suppress(FileExistsError):
            os.link(temporary, file)
    finally:
        temporary.unlink()
    settle(file.parent)
