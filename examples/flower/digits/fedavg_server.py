from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from digits.task import evaluate, net

app = ServerApp()


@app.main()
def main(grid, context):
    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=3)
    rounds = context.run_config["num-server-rounds"]
    strategy.start(grid, ArrayRecord(net().state_dict()), rounds, evaluate_fn=evaluate)
