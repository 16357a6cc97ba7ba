from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp

from digits.task import evaluate, net
from feddiv.flower import Strategy

app = ServerApp()


@app.main()
def main(grid, context):
    given = {"train.epochs": 5, "train.lr": 0.03, "warmup.iterations": 2}
    strategy = Strategy(model=net, classes=10, input_shape=(1, 8, 8), sites=3, settings=given)
    rounds = context.run_config["num-server-rounds"]
    strategy.start(grid, ArrayRecord(net().state_dict()), rounds, evaluate_fn=evaluate)
