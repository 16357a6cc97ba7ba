"""What a server may ask of a site, and what the site says when it is too much."""

import pytest

pytest.importorskip("flwr")

from tests.flower.own_data import sites_grid
from tests.flower.trial import served

from feddiv.config.reading import load_experiment
from feddiv.core.errors import TooFew, UserError
from feddiv.flower.clientapp import site_of
from feddiv.flower.site_limits import SiteLimits
from feddiv.nets import ModelOptions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"most-epochs": 0}, r"train.epochs=\d+: this site allows at most most-epochs=0"),
        ({"most-size": 4}, "data.size=8: this site allows at most most-size=4"),
        (
            {"most-parameters": 1000},
            r"mlp has [\d,]+ parameters here: .*-parameters=1000",
        ),
        ({"most-bytes": 10}, r"a message of [\d,]+ bytes: this site takes at most most-bytes=10"),
        ({"least-samples": 1000}, "holds fewer samples than least-samples=1000 and stays out"),
        ({"most-epochs": "many"}, "node config most-epochs='many': a whole number is needed"),
        ({"most-bytes": True}, "node config most-bytes=True: a whole number is needed"),
        ({"most-bytes": -1}, "node config most-bytes=-1: a whole number is needed"),
    ],
)
def test_a_site_does_not_do_more_than_it_allows(deployment, limit, said):
    grid, config = sites_grid(deployment)
    for node in grid.nodes.values():
        node.update(limit)
    with pytest.raises(TooFew, match=said):
        served(grid, config)
    assert not (deployment / "a" / "state").exists()


def test_an_encoder_sees_no_larger_images_than_the_site_allows():
    asked = load_experiment("quickstart", ["data.encoder=effnet_lite0", "data.encoder_size=513"])
    with pytest.raises(UserError, match=r"data.encoder_size=513: .* at most most-size=512"):
        SiteLimits().check_experiment(asked)
    SiteLimits(most_size=513).check_experiment(asked)


@pytest.mark.slow
def test_limits_that_are_kept_change_nothing(deployment):
    grid, config = sites_grid(deployment)
    usual = served(grid, config).summary["model_hash"]
    grid, config = sites_grid(deployment, out=str(deployment / "again"))
    for node in grid.nodes.values():
        node.update({"most-epochs": 5, "most-size": 8, "most-parameters": 10**6})
        node.update({"most-bytes": 10**7, "least-samples": 10})
    assert served(grid, config).summary["model_hash"] == usual


def test_a_net_is_counted_without_its_memory():
    # 4e9 inputs by 128 would take 2 TB.
    with pytest.raises(UserError, match=r"has 512,000,017,930 parameters here"):
        SiteLimits().check_net(ModelOptions(name="mlp"), (4_000_000_000,), 10)
    # 64·128+128 + 128·128+128 + 128·10+10
    SiteLimits(most_parameters=26_122).check_net(ModelOptions(name="mlp"), (64,), 10)
    with pytest.raises(UserError, match="has 26,122 parameters"):
        SiteLimits(most_parameters=26_121).check_net(ModelOptions(name="mlp"), (64,), 10)


def test_a_site_that_says_nothing_has_limits():
    site = site_of({"data-path": "images", "site-path": "state"}, {})
    assert site.limits == SiteLimits(100, 512, 100_000_000, 2**30, 0)
