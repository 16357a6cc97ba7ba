"""Code that a run names is imported at a site only where its node config allows it."""

import sys

import pytest

pytest.importorskip("flwr")

from tests.flower.own_data import sites_grid
from tests.flower.trial import local, run_config, served, trial_grid

from feddiv.core.errors import TooFew
from feddiv.flower.grid_federation import HELLO, NOBODY
from feddiv.flower.records import SiteTask, VisitAddress, message_records
from feddiv.flower.site import Site
from feddiv.flower.site_data import Part
from feddiv.methods.contract import Message

pytestmark = pytest.mark.slow


def test_a_net_from_a_module_is_built_only_where_the_site_allows_it(deployment):
    config = (deployment / "experiment.toml").read_text()
    net = "tests.flower.nets:small"
    (deployment / "experiment.toml").write_text(config.replace('"mlp"', f'"{net}"'))
    grid, config = sites_grid(deployment)
    with pytest.raises(TooFew, match="builds no net from a module that it has not allowed"):
        served(grid, config)
    grid, config = sites_grid(deployment, out=str(deployment / "allowed"))
    for node in grid.nodes.values():
        node["allow-net"] = net
    assert served(grid, config).summary["model_hash"]


def test_noise_from_a_module_is_imported_only_where_the_site_allows_it(tmp_path, monkeypatch):
    module = "site_noise"
    (tmp_path / f"{module}.py").write_text(
        "from feddiv.data.noise import Symmetric\n\n\nclass Noise(Symmetric):\n    name: str\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    noise = f"{module}:Noise"
    settings = {"noise__name": noise, "noise__rho": 0.5}
    config = run_config(tmp_path / "run", federation__wait=0.2, **settings)
    task = SiteTask(VisitAddress("0" * 32, 0, 0, "", NOBODY), HELLO, f'noise.name = "{noise}"')
    records = message_records(task, Message(HELLO))
    site = Site(tmp_path / "site", Part(0))
    said = "imports no noise from a module that it has not allowed"
    assert said in str(site.answer(records)["problem"])
    assert module not in sys.modules
    with pytest.raises(TooFew, match=said):
        served(trial_grid(config), config)
    config = run_config(tmp_path / "allowed", **settings)
    grid = trial_grid(config)
    for node in grid.nodes.values():
        node["allow-noise"] = noise
    there = served(grid, config).summary
    here = local(tmp_path / "here", **settings).summary
    assert there["draw"] == here["draw"]
    assert there["model_hash"] == here["model_hash"]


def test_a_method_from_a_module_is_run_only_where_the_site_allows_it(deployment, monkeypatch):
    module = "site_method"
    (deployment / f"{module}.py").write_text(
        "from examples.own_method.small_loss import SmallLoss\n\n\n"
        "class Mine(SmallLoss):\n    pass\n"
    )
    monkeypatch.syspath_prepend(deployment)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    method = f"{module}:Mine"
    said = f"method.name={method}: this site runs no method from a module that it has not allowed"
    for text in (f'method.name = "{method}"', f'method.name = ["{method}"]'):
        task = SiteTask(VisitAddress("0" * 32, 0, 0, "", NOBODY), HELLO, text)
        answer = Site(deployment / "site", Part(0)).answer(message_records(task, Message(HELLO)))
        assert "runs no method from a module that it has not allowed" in str(answer["problem"])
    task = SiteTask(VisitAddress("0" * 32, 0, 0, "", NOBODY), HELLO, f'against = ["{method}"]')
    Site(deployment / "site", Part(0)).answer(message_records(task, Message(HELLO)))
    assert module not in sys.modules  # nor is it imported

    with (deployment / "experiment.toml").open("a") as file:
        file.write(f'method = {{ name = "{method}", variant = "half" }}\n')
    grid, config = sites_grid(deployment)
    with pytest.raises(TooFew, match=said):
        served(grid, config)
    grid, config = sites_grid(deployment, out=str(deployment / "allowed"))
    for node in grid.nodes.values():
        node["allow-method"] = method
    assert served(grid, config).summary["variant"] == "half"
