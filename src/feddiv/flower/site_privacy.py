"""What a real site keeps to itself for a private filter: a secret, promises, and noisy uploads.

The secret is random and never leaves the site, so that no server can work out a site's masks or its
noise. Because they follow from it, the same question gets the same answer. And because the masks of
an exchange hide one answer only, the site promises: to a second, different question about the same
exchange it gives no answer. The config is part of a question: another one has other masks and other
noise.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from feddiv.config.experiment import Experiment
from feddiv.core.errors import UserError
from feddiv.core.files import tensors_hash
from feddiv.federation.private_visit import Own
from feddiv.flower.site_ledger import append_line, config_hash, lines_of, write_once
from feddiv.methods.contract import Message
from feddiv.privacy.options import PrivacyOptions
from feddiv.privacy.primitives import KEY, derived

SECRET, PROMISE, UPLOADS = "secret", ".promise", "noisy-uploads"
EPSILONS = ("largest-epsilon", "largest-total-epsilon")


@dataclass(frozen=True)
class Needed:
    """What a site asks of a run before it takes part: one of these filters, and how little noise.

    No filters: it takes part in any run. `largest_total_epsilon` is for all its runs together.
    """

    filters: tuple[str, ...] = ()
    largest_epsilon: float | None = None
    largest_total_epsilon: float | None = None

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
        return cls(filters, *(_largest(node, key) for key in EPSILONS))

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

    @staticmethod
    def check_delta(options: PrivacyOptions, samples: int) -> None:
        """Refuse a delta with which a client may give away one of its samples as it is."""
        if options.filter == "dp" and options.delta * samples >= 1:
            raise UserError(
                f"privacy.delta={options.delta:g}: this site has {samples} samples, delta has to "
                f"be below 1 / {samples}"
            )


def _largest(node: Mapping[str, Any], key: str) -> float | None:
    largest = node.get(key)
    if largest is None:
        return None
    if isinstance(largest, bool | str) or not largest > 0:
        raise UserError(f"node config {key}={largest!r}: give a number above 0")
    return float(largest)


def site_secret(folder: Path) -> bytes:
    """The site's own secret, made when it is first needed; nobody else may read its file."""
    file = folder / SECRET
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_once(file, os.urandom(KEY))
    secret = file.read_bytes()
    if len(secret) != KEY:
        raise UserError("privacy: the site's secret is damaged: its log says where")
    return secret


@dataclass(frozen=True)
class SitePrivacy:
    """One visit at a site. `folder` is the site's, `kept` that of the run and the client."""

    experiment: Experiment
    folder: Path
    kept: Path
    run: str
    version: str  # of the visit: which exchange, which attempt

    @cached_property
    def config(self) -> str:
        """The hash of the config that the server asks under."""
        return config_hash(self.experiment)

    def own(self) -> Own | None:
        """What the visit needs of the site."""
        if self.experiment.privacy.filter == "none":
            return None
        secret = derived(site_secret(self.folder), "run", self.run, self.config)
        return Own(secret, self._grant)

    def promise(self, message: Message, start: str) -> None:
        """Answer this and, for the same step of the same exchange, never anything else."""
        digest = hashlib.sha256(f"{message.kind}\n{start}\n{self.config}\n".encode())
        for name in sorted(message.payload):
            value = np.asarray(message.payload[name], np.float64)
            digest.update(f"{name} {value.shape}\n".encode() + value.tobytes())
        for name in sorted(message.weights):
            digest.update(f"{name} {tensors_hash(message.weights[name])}\n".encode())
        self.kept.mkdir(parents=True, exist_ok=True)
        step = message.kind if message.kind.startswith("privacy ") else "exchange"
        file = self.kept / f"{self.version}-{step.replace(' ', '-')}{PROMISE}"
        text = digest.hexdigest().encode()
        write_once(file, text)
        if file.read_bytes() != text:
            raise UserError(
                f"privacy: the server asks for {message.kind!r} of exchange {self.version} once "
                "more, and otherwise; both answers together would undo the masks"
            )

    def _grant(self, name: str, mark: bytes, before: int) -> bool:
        """Whether a noisy total may be sent: a new one only as often as the run may have.

        The order of the list decides: visits at the same time cannot each take the last place.
        """
        asked = f"{self.version} {self.config} ".encode() + mark
        line = f"{name} {hashlib.sha256(asked).hexdigest()}"
        if len(known := self._granted(name)) < self._most and line not in known:
            append_line(self.kept / UPLOADS, line)
        return line in self._granted(name)

    def _granted(self, name: str) -> list[str]:
        """The lines of the uploads of an entry that may be sent, as far as they are listed."""
        listed = [each for each in lines_of(self.kept / UPLOADS) if each.rpartition(" ")[0] == name]
        return list(dict.fromkeys(listed))[: self._most]

    @property
    def _most(self) -> int:
        return self.experiment.privacy.uploads or 0
