"""Sites encode their samples at home, with the encoder of the run or not at all."""

import pytest

pytest.importorskip("flwr")

from tests.flower.own_data import audit, sites_grid
from tests.flower.trial import served

from feddiv.core.errors import TooFew

pytestmark = pytest.mark.slow


COLOURS = "tests.encoders.colours:Colours"


def encoder_grid(deployment, name, **own):
    """The sites' images go through an encoder; `own` is what the node config of site b says."""
    file = deployment / "experiment.toml"
    text = file.read_text().replace("size = 8, channels = 1", f'encoder = "{name}", channels = 1')
    file.write_text(text)
    grid, config = sites_grid(deployment)
    for number, node in enumerate(grid.nodes.values()):
        node.update({"encoder": COLOURS} if number == 0 else own)
    return grid, config


def test_sites_encode_their_images_at_home(deployment):
    pytest.importorskip("onnx", reason="needs the dev extra")
    grid, config = encoder_grid(deployment, COLOURS, encoder=COLOURS)
    run = served(grid, config)
    assert run.summary["last_held_out_accuracy"] > 0.2
    assert len(audit(deployment, "a")) == 60


@pytest.mark.parametrize(
    ("own", "said", "told"),
    [
        (
            "tests.encoders.colours:OtherColours",
            "its weights are others than those of this run (sha256",
            "its encoder has other weights than the run's",
        ),
        (
            "/srv/secret/colours.onn",
            "data.encoder='/srv/secret/colours.onn' is no encoder",
            "its node config names no encoder",
        ),
        (None, "this site has not said where that encoder is", "where that encoder is"),
    ],
)
def test_a_site_with_another_encoder_stays_out(deployment, capsys, own, said, told):
    """What its own is called, and which weights it has, is told at home alone."""
    pytest.importorskip("onnx", reason="needs the dev extra")
    grid, config = encoder_grid(deployment, COLOURS, **({} if own is None else {"encoder": own}))
    with pytest.raises(TooFew, match=told) as problem:
        served(grid, config)
    found = [line for line in capsys.readouterr().out.splitlines() if said in line]
    assert all("data.encoder=" in line for line in found)
    assert found
    if own is not None:
        assert own not in str(problem.value)
        assert "sha256" not in str(problem.value)
