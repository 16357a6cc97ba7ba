from digits.task import data, net
from feddiv.flower import client_app

app = client_app(model=net, data=data, site_path="~/digits-sites")
