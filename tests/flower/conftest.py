"""What several tests of sites with data of their own share."""

import pytest


@pytest.fixture
def deployment(tmp_path):
    """Two sites, one of which lacks a class, and a server that has nothing but the config."""
    from tests.flower.own_data import CLASSES, site_folder  # where Flower is installed

    experiment = tmp_path / "experiment.toml"
    experiment.write_text(
        f"""
rounds = 4
clients = {{ fraction = 1.0 }}
data = {{ source = "sites", classes = {list(CLASSES)}, size = 8, channels = 1 }}
partition = {{ name = "natural" }}
model = {{ name = "mlp" }}
train = {{ epochs = 2, lr = 0.1 }}
warmup = {{ iterations = 1 }}
evaluation = {{ name = "held_out", every = 2 }}
checkpoint = {{ seconds = 0.0 }}
federation = {{ name = "flower", sites = 2, wait = 0.5 }}
""",
        encoding="utf-8",
    )
    site_folder(tmp_path / "a" / "images", range(0, 60), swap=6)
    site_folder(tmp_path / "b" / "images", range(60, 110), classes=CLASSES[:3])
    return tmp_path
