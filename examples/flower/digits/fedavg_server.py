from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from digits.task import accuracy, net

app = ServerApp()


@app.main()
def main(grid, context):
    strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=3)
    strategy.start(
        grid,
        ArrayRecord(net().state_dict()),
        num_rounds=context.run_config["num-server-rounds"],
        evaluate_fn=lambda number, arrays: MetricRecord(accuracy(arrays)),
    )
