"""`feddiv deploy` on the command line."""

import sys

import pytest


@pytest.fixture
def flower() -> None:
    pytest.importorskip("flwr")


@pytest.mark.usefixtures("flower")
@pytest.mark.parametrize("proxy", [False, True])
def test_init_says_what_goes_where_and_no_secret(command, tmp_path, proxy):
    options = ["--sites", "north,south", "--address", "fl.example.org:443"]
    outcome = command("deploy", "init", "ours", *options, *(["--proxy"] if proxy else []))
    open_to_all = (
        "Who reaches the port can start runs: use --proxy, or a firewall for all but sites."
    )
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [
        "Written to ours",
        "  server/       stays at the server, which sites reach at fl.example.org:443",
        "  sites/north/  is carried to north",
        "  sites/south/  is carried to south",
        "  authority/    is kept offline",
        *([] if proxy else [open_to_all]),
        "Fill in server/experiment.toml next; README.md has the steps.",
    ]
    assert sorted(path.name for path in (tmp_path / "ours" / "sites").iterdir()) == [
        "north",
        "south",
    ]
    assert (tmp_path / "ours" / "server" / "proxy.sh").exists() == proxy


@pytest.mark.usefixtures("flower")
def test_without_options_three_sites_on_this_machine(command, tmp_path):
    assert command("deploy", "init", "ours").code == 0
    names = sorted(path.name for path in (tmp_path / "ours" / "sites").iterdir())
    assert names == ["site-1", "site-2", "site-3"]
    assert "127.0.0.1:8443" in (tmp_path / "ours/sites/site-1/supernode.sh").read_text()


@pytest.mark.usefixtures("flower")
def test_a_folder_in_use_is_refused(refused, tmp_path):
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "notes.txt").write_text("mine")
    assert "ours: is not empty" in refused("deploy", "init", "ours")
    assert "ours: is not empty" in refused("deploy", "demo", "--out", "ours")


def test_bad_names_and_addresses_are_refused(refused):
    assert "--sites=a/b: allowed are" in refused("deploy", "init", "ours", "--sites", "a/b")
    assert "--sites=A: the same name as a" in refused("deploy", "init", "ours", "--sites", "a,A")
    assert "--address=fl.example.org: not HOST:PORT" in refused(
        "deploy", "init", "ours", "--address", "fl.example.org"
    )
    assert "--rounds" in refused("deploy", "demo", "--rounds", "1")


@pytest.mark.parametrize("verb", [("init", "ours"), ("demo",)])
def test_without_flower_one_line_tells_how_to_get_it(refused, monkeypatch, verb):
    monkeypatch.setitem(sys.modules, "flwr", None)
    assert refused("deploy", *verb) == (
        "feddiv: error: Flower is not installed: pip install 'feddiv[flower]'\n"
    )
