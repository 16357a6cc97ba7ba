"""The work in pfl, as one of the processes that torchrun starts; they meet in an all-reduce."""

import numpy as np
import torch
from pfl.aggregate.base import get_num_devices_weight_name
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.callback.central_evaluation import CentralEvaluationCallback
from pfl.common_types import Population
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.internal.ops.pytorch_ops import distributed
from pfl.metrics import Metrics, StringMetricName, Weighted, get_overall_value
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn import functional as F
from work import (
    BATCH,
    CHUNK,
    CLIENTS,
    EVERY,
    IMAGES,
    PROCESSES,
    RATE,
    STEPS,
    VISITS,
    Images,
    Job,
    make_net,
    sgd,
    test_images,
    training_images,
)

ACCURACY = StringMetricName("Central val | accuracy")


class Trainee(nn.Module):
    """The net with the two methods that pfl asks of a model; counts the SGD steps."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.steps = 0

    def loss(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """What a step minimises."""
        if not self.training:  # walking through the modules at every step would cost pfl time
            self.train()
        self.steps += 1
        return F.cross_entropy(self.net(inputs), labels)

    @torch.no_grad()
    def metrics(self, inputs: Tensor, labels: Tensor) -> dict[str, Weighted]:
        """What an evaluation measures."""
        self.eval()
        right = int((self.net(inputs).argmax(dim=1) == labels).sum())
        return {"accuracy": Weighted(right, len(labels))}


class Evaluate(CentralEvaluationCallback):
    """Central evaluation after rounds 10, 20, ...: pfl counts rounds from 0 and would be one late.

    Both processes share the images.
    """

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Evaluate if it is time."""
        return super().after_central_iteration(
            aggregate_metrics, model, central_iteration=central_iteration + 1
        )


class Journal(TrainingProcessCallback):
    """Checks each round's work and writes its line."""

    def __init__(self, job: Job, trainee: Trainee) -> None:
        self.job, self.trainee = job, trainee

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Called after the evaluation, whose metric is among the aggregated ones by then."""
        visits = aggregate_metrics[get_num_devices_weight_name(Population.TRAIN)]
        # The evaluation before training is among the metrics of the first round: not its own.
        evaluated = (central_iteration + 1) % EVERY == 0
        accuracy = aggregate_metrics[ACCURACY] if evaluated else None
        # Each process takes its half of the clients and answers for its own steps.
        share = VISITS * STEPS // distributed.world_size
        if self.trainee.steps != share:
            raise RuntimeError(f"{self.trainee.steps} steps in a round, not {share}")
        self.trainee.steps = 0
        if distributed.global_rank == 0:
            right = None if accuracy is None else float(get_overall_value(accuracy))
            steps = share * distributed.world_size
            self.job.write(central_iteration + 1, int(get_overall_value(visits)), steps, right)
        return False, Metrics()


def clients(images: Images) -> FederatedDataset:
    """Users as pfl's benchmark draws them: at random, so that one may come twice in a round.

    A user's batches are cut once and kept, which is less work than pfl's own `from_slices`.
    """
    parts = [images.part(client, IMAGES) for client in range(CLIENTS)]
    users = [Dataset((part.inputs, part.labels)) for part in parts]
    return FederatedDataset(users.__getitem__, get_user_sampler("random", range(CLIENTS)))


def main(job: Job) -> None:
    """Federated averaging, every client the same weight."""
    assert distributed.world_size == PROCESSES
    torch.set_num_threads(1)
    np.random.seed(job.seed)  # the same in both processes, which thus agree on who trains where
    torch.manual_seed(job.seed)
    trainee = Trainee(make_net())
    torch.manual_seed(job.seed + distributed.global_rank)  # dropout is not the same
    train, test = clients(training_images(job.images, job.seed)), test_images(job.images)
    chunks = NNEvalHyperParams(local_batch_size=CHUNK)
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=job.rounds,
            # Nobody else measures every client before and after it trains: only round 0 here.
            evaluation_frequency=job.rounds,
            train_cohort_size=VISITS,
            val_cohort_size=0,
        ),
        backend=SimulatedBackend(train, train, postprocessors=[WeightByDatapoints()]),
        model=PyTorchModel(trainee, sgd, torch.optim.SGD(trainee.parameters(), lr=1.0)),
        model_train_params=NNTrainHyperParams(
            local_learning_rate=RATE, local_num_epochs=1, local_batch_size=BATCH
        ),
        model_eval_params=chunks,
        callbacks=[
            Evaluate(Dataset((test.inputs, test.labels)), chunks, EVERY),
            Journal(job, trainee),
        ],
        send_metrics_to_platform=False,
    )


if __name__ == "__main__":
    main(Job.from_arguments())
