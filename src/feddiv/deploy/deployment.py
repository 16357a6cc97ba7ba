"""`feddiv deploy init`: all that a server and its sites need to find and trust each other."""

import os
import shutil
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from ipaddress import ip_address
from pathlib import Path

import tomli_w

from feddiv.core.errors import UserError
from feddiv.core.files import settle
from feddiv.core.given_files import at_home
from feddiv.deploy.certificates import Authority, KeyPair, node_key
from feddiv.deploy.site_names import ServerAddress

CONNECTION = "feddiv"
_PRIVATE, _SCRIPT = 0o600, 0o700
_RUNNING = {False: " (keep it running)", True: " and `server/proxy.sh` (keep both running)"}


@dataclass(frozen=True)
class Deployment:
    """The folder that `init` wrote, and where its parts are."""

    folder: Path
    sites: tuple[str, ...]
    address: ServerAddress  # where sites connect
    link: ServerAddress  # where the SuperLink listens: there, or on this machine behind a proxy

    @property
    def proxied(self) -> bool:
        """Whether a proxy stands between the sites and the SuperLink."""
        return self.link != self.address

    @property
    def server(self) -> Path:
        """What belongs on the server."""
        return self.folder / "server"

    def site(self, name: str) -> Path:
        """What is carried to one site."""
        return self.folder / "sites" / name


def init(
    folder: Path, sites: Sequence[str], address: ServerAddress, inner: int | None = None
) -> Deployment:
    """Write the folder of a deployment, whole or not at all.

    With `inner`, a port of the server, the SuperLink listens there for a proxy that sites call.
    """
    final = usable(folder)
    link = address if inner is None else ServerAddress(ip_address("127.0.0.1"), inner)
    deployment = Deployment(final, tuple(sites), address, link)
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        # mkdtemp's folder is its owner's only, so no key is ever readable by others.
        draft = Path(tempfile.mkdtemp(prefix=f".{final.name}-", suffix=".part", dir=final.parent))
    except OSError as problem:
        raise UserError(f"{folder}: cannot be written to: {problem.strerror}") from None
    try:
        _write(draft, deployment)
        for path in (*draft.rglob("*"), draft):
            settle(path)
        try:
            os.rename(draft, final)  # also onto an empty folder
        except OSError as problem:
            raise UserError(f"{folder}: cannot be put in place: {problem.strerror}") from None
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    settle(final.parent)
    return deployment


def absolute(folder: Path) -> Path:
    """The absolute path of a folder that Flower can be told of."""
    path = Path(os.path.abspath(at_home(folder)))
    if "'" in str(path):
        raise UserError(f"{folder}: the path has a quote in it, and Flower cannot be told of it")
    return path


def usable(folder: Path) -> Path:
    """The absolute path of a folder that is not there yet, or is empty."""
    path = absolute(folder)
    try:
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise UserError(f"{folder}: is not a folder")
        if path.is_dir() and any(path.iterdir()):
            raise UserError(f"{folder}: is not empty; name a new folder")
        above = next(parent for parent in path.parents if parent.exists())
    except OSError as problem:
        raise UserError(f"{folder}: {problem.strerror}") from None
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise UserError(f"{folder}: {above} cannot be written to")
    return path


def _write(draft: Path, deployment: Deployment) -> None:
    """Fill the draft; paths inside files are those of the final place."""
    authority, address, link = Authority(), deployment.address, deployment.link
    local = ("localhost", ip_address("127.0.0.1"), ip_address("::1"))
    certificate = authority.pair()
    words = {
        "ADDRESS": str(address),
        "LISTEN": link.listen,
        "PORT": str(link.port),
        "OUTSIDE": _outside(address),
        "RUNNING": _RUNNING[deployment.proxied],
        "COUNT": str(len(deployment.sites)),
    }

    _file(draft / "README.md", _template("README.md", words))
    _pair(draft / "authority", "ca.key", "ca.crt", certificate)

    server = draft / "server"
    _file(server / "ca.crt", certificate.public)
    _pair(server, "server.key", "server.crt", authority.server([address.host, *local]))
    _file(server / "flwr" / "config.toml", _connection(deployment))
    _file(server / "experiment.toml", _template("experiment.toml", words))
    _copy_app(server / "app")
    for script in ("superlink.sh", "register.sh", "unregister.sh", "run.sh", "audit.sh"):
        _file(server / script, _template(script, words), _SCRIPT)
    if deployment.proxied:
        _file(server / "proxy.sh", _template("proxy.sh", words), _SCRIPT)
        _file(server / "proxy" / "nginx.conf", _template("nginx.conf", words))

    for name in deployment.sites:
        key, site = node_key(name), draft / "sites" / name
        _file(server / "keys" / f"{name}.pub", key.public)
        _file(site / "node.key", key.private)
        _file(site / "ca.crt", certificate.public)
        _file(site / "supernode.sh", _template("supernode.sh", words), _SCRIPT)


def _outside(address: ServerAddress) -> str:
    """Where nginx listens, as it writes it."""
    host, port = address.listen, address.port
    return f"[{host}]:{port} ipv6only=off" if ":" in host else f"{host}:{port}"


def _connection(deployment: Deployment) -> bytes:
    """Flower's own config file, in which it looks up the name CONNECTION."""
    connection = {
        "address": str(deployment.link.local),
        "root-certificates": str(deployment.server / "ca.crt"),
    }
    return tomli_w.dumps({"superlink": {"default": CONNECTION, CONNECTION: connection}}).encode()


def _template(name: str, words: Mapping[str, str]) -> bytes:
    """A template of the package with its @WORDS@ filled in."""
    templates = resources.files("feddiv.deploy") / "templates"
    text = (templates / name).read_text(encoding="utf-8")
    for part in ("environment", "connection", "keys"):
        block = (templates / f"{part}.sh").read_text(encoding="utf-8")
        text = text.replace(f"@{part.upper()}@\n", block)
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text.encode()


def _copy_app(target: Path) -> None:
    """The Flower app that the package ships."""
    with resources.as_file(resources.files("feddiv.flower") / "app") as app:
        shutil.copytree(app, target, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    for path in (target, *target.rglob("*")):
        path.chmod(stat.S_IRWXU if path.is_dir() else _PRIVATE)


def _pair(folder: Path, private: str, public: str, pair: KeyPair) -> None:
    _file(folder / private, pair.private)
    _file(folder / public, pair.public)


def _file(path: Path, content: bytes, mode: int = _PRIVATE) -> None:
    """A new file that only its owner can read, in folders of the same kind."""
    for folder in reversed([p for p in path.parents if not p.exists()]):
        folder.mkdir(mode=stat.S_IRWXU)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as file:
        file.write(content)
    path.chmod(mode)  # whatever the umask is
