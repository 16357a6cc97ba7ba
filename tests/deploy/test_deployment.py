"""What `deploy init` writes: read, parsed and used."""

import os
import shutil
import socket
import ssl
import stat
import subprocess
import threading
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("flwr")

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from feddiv.config.reading import load_experiment
from feddiv.config.sections import Flower
from feddiv.core.errors import UserError
from feddiv.data.sources.sites import described
from feddiv.deploy.deployment import Deployment, init
from feddiv.deploy.site_names import address

SITES = ("north", "south", "east")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    before = os.umask(0)  # the worst one
    try:
        folder = tmp_path_factory.mktemp("deploy") / "new folder" / "hospitals"
        return init(folder, SITES, address("superlink.example.org:8443"))
    finally:
        os.umask(before)


def handshake(server: Path, authority: Path, name: str) -> str:
    """A real TLS connection to a server with these files; gives its protocol."""
    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listening.load_cert_chain(server / "server.crt", server / "server.key")
    calling = ssl.create_default_context(cafile=authority)
    with socket.create_server(("127.0.0.1", 0)) as port:
        port.settimeout(10)

        def answer() -> None:
            plain, _ = port.accept()
            plain.settimeout(10)
            try:
                with listening.wrap_socket(plain, server_side=True) as secure:
                    secure.recv(1)
            except OSError:
                plain.close()  # the caller hung up, as some of them should

        server_thread = threading.Thread(target=answer)
        server_thread.start()
        try:
            with (
                socket.create_connection(port.getsockname(), timeout=10) as plain,
                calling.wrap_socket(plain, server_hostname=name) as secure,
            ):
                return str(secure.version())
        finally:
            server_thread.join(10)


@pytest.mark.parametrize("name", ["superlink.example.org", "localhost", "127.0.0.1", "::1"])
def test_the_server_is_believed_under_its_names_by_who_has_the_authoritys_certificate(made, name):
    assert handshake(made.server, made.site("north") / "ca.crt", name) == "TLSv1.3"


def test_an_ip_address_is_in_the_certificate_too(tmp_path):
    made = init(tmp_path / "d", ["a"], address("[2001:db8::7]:8443"))
    assert handshake(made.server, made.server / "ca.crt", "2001:db8::7") == "TLSv1.3"


def test_another_name_and_another_authority_are_refused(made, tmp_path):
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(made.server, made.server / "ca.crt", "other.example.org")
    stranger = init(tmp_path / "d", ["a"], address("superlink.example.org:8443"))
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate"):
        handshake(stranger.server, made.server / "ca.crt", "superlink.example.org")


def test_each_site_has_a_key_of_its_own_and_the_server_its_public_half(made):
    seen = set()
    for name in SITES:
        private = load_ssh_private_key((made.site(name) / "node.key").read_bytes(), None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        assert isinstance(private.curve, ec.SECP384R1)
        line = (made.server / "keys" / f"{name}.pub").read_bytes()
        assert load_ssh_public_key(line).public_numbers() == private.public_key().public_numbers()
        assert line.startswith(b"ecdsa-sha2-nistp384 ")
        assert line.endswith(f" {name}\n".encode())
        seen.add(line)
    assert len(seen) == 3


def test_a_site_gets_nothing_but_its_key_the_certificate_and_the_script(made):
    for name in SITES:
        found = {path.name for path in made.site(name).iterdir()}
        assert found == {"node.key", "ca.crt", "supernode.sh"}
    # The private halves are nowhere else, nor is the authority's key.
    private = [path for path in made.folder.rglob("*.key") if b"PRIVATE" in path.read_bytes()]
    assert sorted(str(path.relative_to(made.folder)) for path in private) == [
        "authority/ca.key",
        "server/server.key",
        *(f"sites/{name}/node.key" for name in sorted(SITES)),
    ]


def test_only_the_owner_can_read_whatever_the_umask(made):
    for path in (made.folder, *made.folder.rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        expected = 0o700 if path.is_dir() or path.suffix == ".sh" else 0o600
        assert oct(mode) == oct(expected), path


def test_flowers_config_names_the_certificate_by_its_absolute_path(made):
    config = tomllib.loads((made.server / "flwr" / "config.toml").read_text())
    assert config["superlink"]["default"] == "feddiv"
    connection = config["superlink"]["feddiv"]
    # The operator's commands go to the server's own machine, not around through a firewall.
    assert connection["address"] == "127.0.0.1:8443"
    assert Path(connection["root-certificates"]) == made.server / "ca.crt"
    assert Path(connection["root-certificates"]).is_absolute()


def test_the_scripts_are_shell_with_every_word_filled_in(made):
    scripts = [*made.server.glob("*.sh"), *made.folder.glob("sites/*/*.sh")]
    assert len(scripts) == 5 + len(SITES)
    for script in scripts:
        assert "@" not in script.read_text().replace("$@", "")
        assert subprocess.run(["sh", "-n", script]).returncode == 0


def test_the_scripts_switch_off_what_needs_a_network(made):
    for script in (*made.server.glob("*.sh"), made.site("north") / "supernode.sh"):
        text = script.read_text()
        for switch in (
            "FLWR_TELEMETRY_ENABLED=0",
            "FLWR_DISABLE_UPDATE_CHECK=1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1",
        ):
            assert f"export {switch}\n" in text


def test_a_site_allows_a_method_and_a_net_by_name(made, tmp_path):
    said = tmp_path / "said"
    for name in ("feddiv", "flower-superexec"):
        (tmp_path / name).write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {said}\n')
        (tmp_path / name).chmod(0o700)
    site = made.site("north")
    usual = {"PATH": f"{tmp_path}:/usr/bin:/bin", "FEDDIV_SITE_DATA": str(tmp_path)}
    allowed = {"FEDDIV_SITE_METHOD": "my.pkg:Mine", "FEDDIV_SITE_NET": "my.nets:small"}
    for more, wanted in (
        ({}, ""),
        (allowed, ' allow-method="my.pkg:Mine" allow-net="my.nets:small"'),
        ({"FEDDIV_SITE_ENCODER": "/srv/my nets/e.onnx"}, ' encoder="/srv/my nets/e.onnx"'),
        ({"FEDDIV_SITE_PROBABILITIES": "/srv/p.csv"}, ' probabilities="/srv/p.csv"'),
        ({"FEDDIV_SITE_CLASSIFIER": "/srv/my run"}, ' classifier="/srv/my run"'),
        ({"FEDDIV_SITE_CORRECTIONS": "/srv/my/c.csv"}, ' corrections="/srv/my/c.csv"'),
    ):
        subprocess.run([site / "supernode.sh"], env=usual | more, check=True, timeout=30)
        config = f"data-path='{tmp_path}' site-path='{site / 'site'}'{wanted}"
        assert said.read_text().splitlines()[-2:] == ["--node-config", config]


def test_a_script_says_what_is_missing(made, tmp_path):
    def says(script: Path, *arguments: str, path: str = os.environ["PATH"]) -> str:
        done = subprocess.run(
            [script, *arguments], capture_output=True, text=True, env={"PATH": path}, timeout=30
        )
        assert done.returncode == 2
        return done.stderr

    bare = tmp_path / "bin"
    bare.mkdir()
    supernode = made.site("north") / "supernode.sh"
    assert "pip install 'feddiv[flower]'" in says(supernode, path="/usr/bin:/bin")
    helper = bare / "flower-superexec"
    helper.write_text("#!/bin/sh\n")
    helper.chmod(0o700)
    path = f"{bare}:/usr/bin:/bin"
    assert f"no data at {made.site('north') / 'data'}" in says(supernode, path=path)
    run = made.server / "run.sh"
    assert "'resume' is no setting" in says(run, "resume", path=path)
    assert "as in experiment.toml, with dots" in says(run, "train-lr=1", path=path)
    assert "spaces do not get through" in says(run, "description=a b", path=path)
    assert f"{made.server}/run holds no run to go on with" in says(run, "resume=true", path=path)
    (made.server / "run").mkdir()
    for name in ("config.toml", "summary.json"):  # also one that is finished
        (made.server / "run" / name).write_text("")
        told = says(run, "rounds=3", path=path)
        assert told.startswith(f"run.sh: {made.server}/run holds a run: move it away, or go on")
    assert "run is finished" in says(run, "resume=true", "rounds=99", path=path)
    shutil.rmtree(made.server / "run")
    assert "name one site" in says(made.server / "unregister.sh", path=path)
    assert "no site 'west' was registered" in says(made.server / "unregister.sh", "west", path=path)
    moved = tmp_path / "elsewhere"
    (moved / "flwr").mkdir(parents=True)
    for name in ("run.sh", "ca.crt", "flwr/config.toml"):
        (moved / name).write_bytes((made.server / name).read_bytes())
    (moved / "run.sh").chmod(0o700)
    (moved / "ca.crt").write_text("another")
    assert f'set root-certificates = "{moved}/ca.crt"' in says(moved / "run.sh", path=path)


def test_the_app_is_the_packages_own(made):
    import feddiv.flower

    shipped = Path(feddiv.flower.__file__).parent / "app"
    files = {path.relative_to(shipped) for path in shipped.rglob("*.py")}
    copied = {path.relative_to(made.server / "app") for path in made.server.rglob("app/**/*.py")}
    assert copied == files
    for name in files:
        assert (made.server / "app" / name).read_bytes() == (shipped / name).read_bytes()
    assert (made.server / "app" / "pyproject.toml").is_file()


def test_the_experiment_is_ready_once_the_classes_are_filled_in(made, tmp_path):
    text = (made.server / "experiment.toml").read_text()
    with pytest.raises(UserError, match=r"data\.classes=\[\]: name the classes"):
        described(load_experiment(made.server / "experiment.toml").data)
    filled = tmp_path / "experiment.toml"
    filled.write_text(text.replace("classes = []", 'classes = ["effusion", "no finding"]'))
    experiment = load_experiment(filled)
    assert described(experiment.data).input_shape == (3, 64, 64)
    assert experiment.federation == Flower(sites=len(SITES))
    assert (experiment.clients.fraction, experiment.noise.name) == (1.0, "none")


def test_an_empty_folder_is_taken_and_a_full_one_left_alone(tmp_path):
    where = address("127.0.0.1:8443")
    empty = tmp_path / "empty"
    empty.mkdir(mode=0o755)
    assert stat.S_IMODE(init(empty, ["a"], where).folder.stat().st_mode) == 0o700
    before = {path: path.stat().st_mtime_ns for path in empty.rglob("*")}
    with pytest.raises(UserError, match="is not empty"):
        init(empty, ["a"], where)
    assert {path: path.stat().st_mtime_ns for path in empty.rglob("*")} == before
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(UserError, match="is not a folder"):
        init(file, ["a"], where)
    with pytest.raises(UserError, match="cannot be written to"):
        init(file / "below", ["a"], where)
    with pytest.raises(UserError, match="the path has a quote in it"):
        init(tmp_path / "it's", ["a"], where)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]


def test_a_failure_half_way_leaves_nothing(tmp_path):
    # A name that validation would refuse makes the writing itself fail, after the first keys.
    with pytest.raises(OSError, match="too long"):
        init(tmp_path / "d", ["a", "b" * 300], address("127.0.0.1:8443"))
    assert not list(tmp_path.iterdir())
