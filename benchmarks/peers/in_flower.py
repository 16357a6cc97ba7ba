"""The work in Flower: its FedAvg strategy and its simulation, two actors of one core each.

`run_simulation` starts the engine that `flwr run` starts, without the daemon that stays behind.

A client is a SuperNode, so there are 1,000 of them. Flower's runtime asks each of its nodes ten
times a second for news, in the time of the actors; with `--nodes 50` there are only as many as a
round needs, and the server tells each whose images to train on. No way that Flower documents, but
the fastest that was found, and enough for clients without memory.
"""

import os
import random
from collections.abc import Iterable

import torch
from flower_client import IMAGES_VARIABLE, SEED_VARIABLE
from flower_client import app as client
from flwr.app import (
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from work import CLIENTS, EVERY, PROCESSES, VISITS, Job, hits, make_net, test_images


class CountedFedAvg(FedAvg):
    """FedAvg that notes how many clients answered and how many steps they took."""

    visits = 0
    steps = 0

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Count, then average."""
        replies = list(replies)
        answers = [reply.content["metrics"] for reply in replies if not reply.has_error()]
        self.visits, self.steps = len(answers), sum(int(answer["steps"]) for answer in answers)
        return super().aggregate_train(server_round, replies)


class Dealt(CountedFedAvg):
    """Clients are dealt anew to the nodes in each round."""

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """One message to each node, with the client it is to be."""
        chosen = random.sample(range(CLIENTS), VISITS)
        return [
            Message(
                RecordDict({"arrays": arrays, "config": ConfigRecord({"client": client})}),
                dst_node_id=node,
                message_type=MessageType.TRAIN,
            )
            for node, client in zip(grid.get_node_ids(), chosen, strict=True)
        ]


def server(job: Job) -> ServerApp:
    """A server that evaluates every few rounds and writes a line after each."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        random.seed(job.seed)  # Flower samples clients with the global generator
        torch.manual_seed(job.seed)
        # The actors wait while the server evaluates: it may have both cores.
        torch.set_num_threads(PROCESSES)
        net, test = make_net(), test_images(job.images)
        strategy = (CountedFedAvg if job.nodes == CLIENTS else Dealt)(
            fraction_train=VISITS / job.nodes,
            fraction_evaluate=0.0,
            min_available_nodes=job.nodes,
        )

        def after_round(number: int, arrays: ArrayRecord) -> MetricRecord | None:
            accuracy = None
            if number and number % EVERY == 0:
                net.load_state_dict(arrays.to_torch_state_dict())
                accuracy = hits(net, test) / len(test.labels)
            if number:
                job.write(number, strategy.visits, strategy.steps, accuracy)
            return None

        strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(net.state_dict()),
            num_rounds=job.rounds,
            evaluate_fn=after_round,
        )

    return app


if __name__ == "__main__":
    job = Job.from_arguments()
    os.environ |= {IMAGES_VARIABLE: str(job.images), SEED_VARIABLE: str(job.seed)}
    run_simulation(
        server(job),
        client,
        num_supernodes=job.nodes,
        backend_config={
            "init_args": {"num_cpus": PROCESSES},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
