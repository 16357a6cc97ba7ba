"""A site: it takes part in any run of feddiv with the data that its node config names."""

from feddiv.flower import client_app

app = client_app()
