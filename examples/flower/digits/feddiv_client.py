from feddiv.flower import client_app

from digits.task import data, net

app = client_app(model=net, data=data, site_path=lambda context: f"{context.run_config['site-path']}/{context.node_config['partition-id']}")
