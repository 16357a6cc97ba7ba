"""What a run's private filter was worth, for its summary."""

from typing import Any

from feddiv.federation.accounts import Accounts
from feddiv.methods.contract import Facts, Method
from feddiv.privacy.accounting import epsilon_spent
from feddiv.privacy.noise import noise_plan
from feddiv.privacy.options import PrivacyOptions
from feddiv.privacy.totals import pooled

NOT_COVERED = ["weights", "n_k", "how far weights moved"]


def privacy_summary(
    options: PrivacyOptions, method: Method[Any, Any], facts: Facts, accounts: Accounts | None
) -> dict[str, Any]:
    """Which uploads were protected and how, and what the client spent that uploaded most often.

    Uploads are counted where their replies were taken: a client may have made more, and spent up to
    `epsilon`.
    """
    if options.filter == "none":
        return {}
    kinds = method.kinds(facts)
    said: dict[str, Any] = {
        "filter": options.filter,
        "covered": sorted({name for kind in kinds.values() for name in pooled(kind)}),
        "not_covered": NOT_COVERED,
    }
    if options.filter == "dp" and said["covered"]:
        plan = noise_plan(options, method.budget, kinds)
        counts = {} if accounts is None else accounts.uploads()
        releases = sum(min(count, plan.uploads) for count in counts.values())
        said |= {
            "epsilon": options.epsilon,
            "delta": options.delta,
            "epsilon_spent": epsilon_spent(plan.ratio, options.delta, releases),
            "uploads": plan.uploads,
            "most_uploads": max(counts.values(), default=0),
            "noise_ratio": plan.ratio,
        }
    return {"privacy": said}


def privacy_lines(summary: dict[str, Any]) -> list[str]:
    """The same in words."""
    said = summary.get("privacy")
    if said is None:
        return []
    hidden = ", ".join(said["covered"])
    if not hidden:
        return ["Privacy: the method uploads nothing but models, which no filter hides."]
    if said["filter"] == "sum_only":
        return [f"Privacy: of {hidden} the server saw sums over clients only; weights as they are."]
    return [
        f"Privacy: {hidden} with noise, epsilon {said['epsilon_spent']:.3g} of "
        f"{said['epsilon']:g} at delta {said['delta']:g} for one sample of the client that "
        "uploaded most, by replies that were taken; weights are not covered."
    ]
