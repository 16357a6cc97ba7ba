"""The ClientApp of a site: its node config says where its data and its folder are."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from feddiv.errors import UserError
from feddiv.federation.flower.records import problem_records
from feddiv.flower.holdings import Holdings, OwnData, Part
from feddiv.flower.site import Site

KEYS = ("data-path", "site-path", "partition-id", "num-partitions", "allow-net")


def client_app() -> ClientApp:
    """A ClientApp that takes part in any run of feddiv with the data that its node has."""
    return app_of(lambda context: site_of(context.node_config, context.run_config))


def app_of(site: Callable[[Context], Site]) -> ClientApp:
    """A ClientApp whose node acts as this site."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        """Every message of a run: what it asks for is in its task."""
        try:
            answer = site(context).answer(message.content)
        except UserError as problem:
            answer = problem_records(" ".join(str(problem).split()))
        return Message(answer, reply_to=message)

    return app


def site_of(node: Mapping[str, Any], run: Mapping[str, Any]) -> Site:
    """The site that a node config describes."""
    unknown = sorted(set(node) - set(KEYS))
    if unknown:
        raise UserError(f"node config {unknown[0]}: is unknown; allowed: {', '.join(KEYS)}")
    allowed = str(node.get("allow-net", ""))
    return Site(_folder(node, run), _holdings(node), nets=(allowed,) if allowed else ())


def _holdings(node: Mapping[str, Any]) -> Holdings:
    if "data-path" in node:
        return OwnData(Path(str(node["data-path"])).expanduser())
    place = node.get("partition-id")
    if not isinstance(place, int) or isinstance(place, bool) or place < 0:
        raise UserError(
            'node config: give data-path="…" (a site\'s own data) or partition-id=N (a trial)'
        )
    return Part(place)


def _folder(node: Mapping[str, Any], run: Mapping[str, Any]) -> Path:
    """Where the site keeps what is its own; in a trial it may be beside the run."""
    if "site-path" in node:
        return Path(str(node["site-path"])).expanduser()
    if "data-path" in node:
        raise UserError(
            'node config: site-path="…" has to name the folder where this site keeps its state '
            "and its label audit"
        )
    out = str(run.get("out", ""))
    if not out:
        raise UserError('node config: a trial needs site-path="…", or the run config out="…"')
    return Path(out).expanduser() / "sites" / f"{node.get('partition-id')}"
