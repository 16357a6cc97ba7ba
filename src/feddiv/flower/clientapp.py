"""The ClientApp of a site: its node config says where its data and its folder are."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from torch import Tensor, nn

from feddiv.core.errors import UserError
from feddiv.core.import_path import path_of
from feddiv.core.terminal import LINE, shown
from feddiv.flower.records import problem_records
from feddiv.flower.site import Site, say
from feddiv.flower.site_data import AppData, NoData, OwnData, Part, SiteData
from feddiv.flower.site_limits import KEYS as LIMITS
from feddiv.flower.site_limits import SiteLimits
from feddiv.flower.site_predictions import OwnClassifier
from feddiv.flower.site_privacy import EPSILONS, Needed
from feddiv.methods.contract import Method

KEYS = (
    "data-path",
    "site-path",
    "partition-id",
    "num-partitions",
    "allow-net",
    "allow-noise",
    "allow-method",
    "encoder",
    "probabilities",
    "classifier",
    "corrections",
    *LIMITS,
    "need-privacy",
    *EPSILONS,
)

SitePath = str | Path | Callable[[Context], str | Path]


def client_app(
    *,
    model: Callable[[], nn.Module] | None = None,
    data: Callable[[Context], Any] | None = None,
    train_transform: Callable[[Tensor], Tensor] | None = None,
    site_path: SitePath | None = None,
    method: type[Method[Any, Any]] | None = None,
) -> ClientApp:
    """A ClientApp that takes part in any run of feddiv with the data that its node has.

    Without arguments the node config says where the data are. People with a Flower app of their own
    give `model`, which makes their net, and `data`: for a context the node's data set of numbered
    items (what the net eats, label), or a loader over one. `train_transform` changes one sample at
    random, in training only. `site_path` is the folder where the node keeps its state and its label
    audit, or says it for a context; nodes of a simulation get folders inside it. `method` is a
    method of the app's own that the server may run here.
    """
    if all(each is None for each in (model, data, train_transform, site_path, method)):
        return app_of(lambda context: site_of(context.node_config, context.run_config))
    if model is None or data is None:
        missing = "model" if model is None else "data"
        raise UserError(f"client_app: {missing}= is missing; model= and data= belong together")

    def site(context: Context) -> Site:
        place = _place(context.node_config)
        folder = _app_folder(context, site_path, place)
        corrections = _corrections(context.node_config)
        holdings = AppData(lambda: data(context), train_transform, place, corrections)
        methods = _allowed(context.node_config, "allow-method")
        methods += () if method is None else (path_of(method),)
        limits, needed = SiteLimits.of(context.node_config), Needed.of(context.node_config)
        return Site(
            folder,
            holdings,
            net=model,
            methods=methods,
            limits=limits,
            privacy=needed,
            own=OwnClassifier(net=model),
        )

    return app_of(site)


def _app_folder(context: Context, site_path: SitePath | None, place: int | None) -> Path:
    """The node's own word comes first."""
    if "site-path" in context.node_config:
        return Path(str(context.node_config["site-path"])).expanduser()
    if site_path is None:
        raise UserError(
            "client_app: site_path= has to name the folder where this site keeps its state and its "
            'label audit, or site-path="…" in its node config'
        )
    if callable(site_path):
        return Path(site_path(context)).expanduser()
    folder = Path(site_path).expanduser()
    return folder if place is None else folder / str(place)


def _place(node: Mapping[str, Any]) -> int | None:
    """The number that a simulation gives to a node."""
    place = node.get("partition-id")
    return place if isinstance(place, int) and not isinstance(place, bool) else None


def app_of(site: Callable[[Context], Site]) -> ClientApp:
    """A ClientApp whose node acts as this site."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        """Every message of a run: what it asks for is in its task."""
        try:
            answer = site(context).answer(message.content)
        except UserError as problem:
            say(str(problem))
            answer = problem_records(shown(" ".join(str(problem).split()), LINE))
        return Message(answer, reply_to=message)

    return app


def site_of(node: Mapping[str, Any], run: Mapping[str, Any]) -> Site:
    """The site that a node config describes."""
    unknown = sorted(set(node) - set(KEYS))
    if unknown:
        raise UserError(f"node config {unknown[0]}: is unknown; allowed: {', '.join(KEYS)}")
    nets, methods = _allowed(node, "allow-net"), _allowed(node, "allow-method")
    encoder, probabilities, classifier = (
        str(node[key]) if key in node else None
        for key in ("encoder", "probabilities", "classifier")
    )
    return Site(
        _folder(node, run),
        _holdings(node),
        nets=nets,
        noises=_allowed(node, "allow-noise"),
        methods=methods,
        encoder=encoder,
        own=OwnClassifier(probabilities, classifier, allow=(*nets, *methods), encoder=encoder),
        limits=SiteLimits.of(node),
        privacy=Needed.of(node),
    )


def _allowed(node: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The import path that a site allows by this key, if any."""
    path = str(node.get(key, ""))
    return (path,) if path else ()


def _holdings(node: Mapping[str, Any]) -> SiteData:
    if "data-path" in node:
        return OwnData(Path(str(node["data-path"])).expanduser(), _corrections(node))
    if "corrections" in node:
        raise UserError(
            "node config corrections: goes with data-path; of a trial the run itself says "
            "data.corrections"
        )
    place = _place(node)
    if place is None and "probabilities" in node:
        return NoData()
    if place is None or place < 0:
        raise UserError(
            'node config: give data-path="…" (a site\'s own data) or partition-id=N (a trial)'
        )
    return Part(place)


def _corrections(node: Mapping[str, Any]) -> Path | None:
    """The file in which the site's experts have decided about its labels, if it has one."""
    return Path(str(node["corrections"])).expanduser() if "corrections" in node else None


def _folder(node: Mapping[str, Any], run: Mapping[str, Any]) -> Path:
    """Where the site keeps what is its own; in a trial it may be beside the run."""
    if "site-path" in node:
        return Path(str(node["site-path"])).expanduser()
    if "data-path" in node or "probabilities" in node:
        raise UserError(
            'node config: site-path="…" has to name the folder where this site keeps its state '
            "and its label audit"
        )
    out = str(run.get("out", ""))
    if not out:
        raise UserError('node config: a trial needs site-path="…", or the run config out="…"')
    return Path(out).expanduser() / "sites" / f"{node.get('partition-id')}"
