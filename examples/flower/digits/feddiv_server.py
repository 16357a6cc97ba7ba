from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp import ServerApp

from digits.task import accuracy, net
from feddiv.flower import Strategy

app = ServerApp()


@app.main()
def main(grid, context):
    training = {"train.epochs": 5, "train.lr": 0.03, "warmup.iterations": 2}
    strategy = Strategy(
        "feddiv", model=net, classes=10, input_shape=(1, 8, 8), sites=3, settings=training
    )
    strategy.start(
        grid,
        ArrayRecord(net().state_dict()),
        num_rounds=context.run_config["num-server-rounds"],
        evaluate_fn=lambda number, arrays: MetricRecord(accuracy(arrays)),
    )
