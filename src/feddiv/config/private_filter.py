"""What a private filter asks of the rest of an experiment."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import ValidationError

from feddiv.config.sections import Flower, HeldOut
from feddiv.core.dotted import flat, put
from feddiv.core.errors import UserError
from feddiv.privacy.conflicts import check_private, sends_totals
from feddiv.privacy.noise import expected_uploads
from feddiv.privacy.options import check_installed

if TYPE_CHECKING:
    from feddiv.config.experiment import Experiment


def with_private_filter(experiment: "Experiment", note: Callable[[str], None]) -> "Experiment":
    """The same with options of the method that go with the private filter; refused if none do."""
    privacy, method = experiment.privacy, experiment.method
    if privacy.filter == "none":
        return experiment
    check_installed(privacy)
    if privacy.filter == "dp" and privacy.uploads is None:  # more rounds later mean no more noise
        uploads = expected_uploads(experiment.budget)
        privacy = privacy.model_copy(update={"uploads": uploads})
        experiment = experiment.model_copy(update={"privacy": privacy})
    if privacy.filter == "dp" and isinstance(experiment.evaluation, HeldOut):
        raise UserError(
            "evaluation.name=held_out: its counts would be uploaded without noise; with "
            "privacy.filter=dp take evaluation.name=central"
        )
    if experiment.data.standardise == "clients":
        raise UserError(
            "data.standardise=clients: each client would tell sums of its features, which "
            f"privacy.filter={privacy.filter} does not hide; take data.standardise=source"
        )
    _check_defences(experiment)
    options, set_now = method.model_dump(), flat(method.model_dump())
    for key, usual, instead in method.private.get(privacy.filter, ()):
        if key in set_now and set_now[key] == usual:
            put(options, key, instead)
    try:
        changed = type(method).model_validate(options)
    except ValidationError:  # those that it was made for are not set: the next check says so
        changed = method
    experiment = experiment.model_copy(update={"method": changed})
    built = experiment.build_method()
    check_private(built, privacy, experiment.clients.count)
    after = flat(changed.model_dump())
    lines = [f"method.{key}={_spelt(after[key])}" for key in after if after[key] != set_now[key]]
    if lines:
        note(f"privacy.filter={privacy.filter} sets {', '.join(lines)}")
    if not sends_totals(built):
        note(
            f"privacy.filter={privacy.filter}: {method.name} uploads nothing but models, which no "
            "filter hides"
        )
    return experiment


def _check_defences(experiment: "Experiment") -> None:
    """Refuse defences that look at what single clients say of what a private filter hides."""
    chosen, robust = experiment.privacy.filter, experiment.robust
    if robust.filter != "sum":
        raise UserError(
            f"robust.filter={robust.filter}: compares single clients' filters; with "
            f"privacy.filter={chosen} take robust.filter=sum"
        )
    if robust.weights == "krum" and chosen == "sum_only":
        raise UserError(
            "robust.weights=krum: picks single clients' models; with privacy.filter=sum_only take "
            "another"
        )
    # Sites that say they are larger are refused at hello; here clients would be scaled.
    at_sites = isinstance(experiment.federation, Flower)
    if experiment.federation.largest_site is not None and not at_sites:
        raise UserError(
            "federation.largest_site: scales what single clients say of their labels, which "
            f"privacy.filter={chosen} hides; leave it out"
        )


def _spelt(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
