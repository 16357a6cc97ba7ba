"""Commands with input that was made to do harm; each must end soon, in one line.

`{}` in an argument stands for the folder of hostile files. Nothing is ever written to a device of
the machine: links and pipes in that folder stand for them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.cli.hostile_files import DEEP, HEADERS, TOML

REFUSED: Final = frozenset({2})
FINE: Final = frozenset({0, 2})  # it may also be possible, and then it has to be done


@dataclass(frozen=True)
class Case:
    """A command, what its environment says, and the exit codes that are right."""

    name: str
    arguments: tuple[str, ...]
    codes: frozenset[int] = REFUSED
    environment: Mapping[str, str] = field(default_factory=dict)


def _numbers() -> Iterator[Case]:
    """Numbers of a config that are none, or that no machine can serve."""
    whole = (
        "rounds", "seed", "clients.count", "train.epochs", "train.batch", "warmup.iterations",
        "evaluation.every", "data.images", "data.test_images", "data.size", "data.augment.pad",
    )  # fmt: skip
    for key in whole:
        for value in ("10" + "0" * 17, "1" + "0" * 400, "-1", "nan", "1e18", "true", "١٢", "[3]"):
            if key != "seed" or len(value) != 19:  # any 63 bits make a seed
                yield Case(f"{key}={value[:8]} ({len(value)})", ("run", f"{key}={value}"))
    real = ("train.lr", "train.weight_decay", "clients.fraction", "noise.rho", "checkpoint.seconds")
    for key in real:
        for value in ("nan", "-inf", "1e400", "-1.0", "true", "1979-05-27", "''"):
            yield Case(f"{key}={value}", ("run", f"{key}={value}"))
    yield Case("rounds=-0", ("show", "rounds=-0"))
    yield Case("seed=-0.0", ("show", "seed=-0.0"))
    others = (
        "method.em_steps=1000000000000000000000", "method.filter.em_steps=1000000000000000",
        "method.relabel.confidence=nan", "method.sampler.xi=1e400", "method.min_batches=-3",
        "federation.round_timeout=inf", "partition.alpha=-0.0", "partition.min_size=99999999999999",
        "noise.tau=1_0", "data.subset=-0.0", "data.test_share=1.0", "checkpoint.seconds=-1e-300",
    )  # fmt: skip
    for setting in others:
        yield Case(setting, ("run", setting))
    sites = ("quickstart", "data.source=sites", "partition.name=natural", "noise.name=none",
             "data.classes=a,b")  # fmt: skip
    for setting in (
        "data.features=1000000000000", "data.shape=[100000,100000,1000]", "data.size=99999999",
        "data.features=4611686018427387904", "data.shape=[9223372036854775807,9223372036854775807]",
    ):  # fmt: skip
        yield Case(setting, ("run", *sites, setting, "model.name=mlp", "evaluation.name=held_out"))
    for number in (10**9, 10**30, -1):
        yield Case(f"--workers {number}", ("run", "--workers", str(number)))
    yield Case("--workers x", ("run", "--workers", "x"))
    for setting in ("partition.deal_to=1000000000000", "partition.per_client=1000000000000000"):
        yield Case(
            setting,
            ("run", "partition.name=" + ("auto" if "deal" in setting else "shards"), setting),
        )
    for method, setting in (
        ("fedrn", "neighbours=1000000000000"), ("rofl", "forget_ramp=1000000000000000000000000"),
        ("jointopt", "window=1000000000000"), ("fedcorr", "neighbours=1000000000000"),
        ("dividemix", "ramp_rounds=1000000000000000000000"), ("fedprox", "mu=1e400"),
    ):  # fmt: skip
        yield Case(f"{method} {setting}", ("run", f"method.name={method}", f"method.{setting}"))


def _settings() -> Iterator[Case]:
    """`key=value` that is neither."""
    texts = {
        "deep-list": "rounds=" + "[" * DEEP,
        "closed-list": "rounds=" + "[" * DEEP + "]" * DEEP,
        "deep-table": "rounds=" + "{a=" * DEEP,
        "ten-megabytes": "rounds=" + "x" * 10_000_000,
        "ten-megabytes-of-digits": "rounds=" + "9" * 10_000_000,
        "ten-megabytes-of-hex": "rounds=0x" + "f" * 10_000_000,
        "long-key": "k" * 10_000_000 + "=1",
        "dots": ".".join("a" * 10_000) + "=1",
        "more-dots": ".".join("a" * DEEP) + "=1",
        "dots-below-a-section": "method" + ".a" * 10_000 + "=1",
        "dots-alone": "." * 10_000 + "=1",
        "one-dot": ".=1",
        "empty-part": "method..name=feddiv",
        "empty-last": "method.=feddiv",
        "empty-first": ".method=feddiv",
        "nul-key": "rou\0nds=3",
        "nul-value": "method.name=fed\0avg",
        "nul-path": 'data.path="a\\u0000b"',
        "escape": "method.name=\x1b[2J",
        "surrogate": "method.name=\udcff",
        "surrogate-key": "\udcff=1",
        "newline": "method.name=a\nfeddiv: forged",
        "second-key": "rounds=3\nseed=4",
        "comment": "rounds=#",
        "section": "rounds=3\n[data]\nsource='npz'",
        "quotes": "rounds='''",
        "backslash": 'rounds="\\ud800"',
        "date": "rounds=1979-05-27T07:32:00Z",
        "bad-date": "rounds=1979-99-99",
        "time": "seed=07:32:00",
        "section-as-value": "method=1",
        "section-as-list": "data=[]",
        "section-as-text": "clients=many",
        "method-of-nothing": "method={}",
        "name-is-list": "method.name=[]",
        "name-is-number": "method.name=1e400",
        "name-is-table": "partition.name={a=1}",
        "noise-is-table": "noise.name={}",
        "evaluation-is-list": "evaluation.name=[1,[2]]",
        "source-is-number": "data.source=3",
        "source-is-list": "data.source=[1]",
        "model-is-number": "model.name=3",
        "model-is-colon": "model.name=:",
        "model-is-dots": "model.name=...:x",
        "model-is-long": "model.name=" + "a." * 100_000 + "b:c",
        "model-is-nul": "model.name=a\0b:c",
        "model-is-main": "model.name=__main__:x",
        "model-is-builtin": "model.name=builtins:print",
        "model-is-exit": "model.name=os:_exit",
        "model-exits": "model.name=sys:exit",
        "method-is-exit": "method.name=os:_exit",
        "method-is-colon": "method.name=:",
        "noise-is-path": "noise.name=os:system",
        "against-long": "against=" + "fedavg," * 200_000,
        "against-numbers": "against=[1,2]",
        "against-deep": "against=" + "[" * 3000 + "]" * 3000,
        "weights-zero": "model.weights=/dev/zero",
        "weights-pipe": "model.weights={}/pipe.safetensors",
        "weights-folder": "model.weights={}/folder.safetensors",
        "weights-huge": "model.weights={}/huge.npz",
        "weights-nul": 'model.weights="a\\u0000b"',
        "weights-long": "model.weights=" + "w" * 5000,
        "draw-zero": "data.draw=/dev/zero",
        "draw-pipe": "data.draw={}/pipe.npz",
        "draw-bomb": "data.draw={}/bomb.npz",
        "draw-nul": 'data.draw="a\\u0000b"',
        "sha": "model.sha256=" + "0" * 10_000_000,
        "home": "data.path=~nobody-of-that-name/x",
        "classes": "data.classes=" + "c," * 1_000_000,
        "equals": "=" * 100_000,
        "description": "description=" + "d" * 1_000_000 + "\0",
    }  # fmt: skip
    for name, text in texts.items():
        source = ("data.source=npz",) if name in ("nul-path", "home") else ()
        codes = FINE if name == "description" else REFUSED
        command = "show" if name == "description" else "run"
        yield Case(f"setting-{name}", (command, *source, text), codes)


def _configs() -> Iterator[Case]:
    """Files of configs."""
    for name in TOML:
        yield Case(f"run-{name}", ("run", f"{{}}/{name}"))
    for name in ("deep-lists.toml", "million-classes.toml", "deep-keys.toml", "long-number.toml"):
        codes = FINE if name == "million-classes.toml" else REFUSED
        yield Case(f"show-{name}", ("show", f"{{}}/{name}"), codes)
    for kind in ("pipe", "zero", "random", "folder", "circle", "huge", "full"):
        for command in ("show", "run"):
            codes = REFUSED
            yield Case(f"{command}-{kind}.toml", (command, f"{{}}/{kind}.toml"), codes)
    for path in (
        "/dev/stdin",
        "/dev/tty",
        "/proc/self/mem",
        "/dev/fd/0",
        "",
        "n" * 5000,
        "\udcff.toml",
        "\x1b[2J.toml",
    ):
        yield Case(f"show {path[:12]!r}", ("show", path))


def _data() -> Iterator[Case]:
    """Files of data, of every source that reads files."""
    for name in HEADERS:
        yield Case(
            f"npz-{name}", ("data", "describe", "data.source=npz", f"data.path={{}}/{name}.npz")
        )
    fine = {"thin", "names"}
    for name in (
        "bomb", "lying", "many-members", "encrypted", "quoted", "twice", "cut-off", "polyglot",
        "million-classes", "names", "minus", "unsigned", "thin", "no-width", "no-pixels",
        "long-text", "pipe", "zero", "random", "folder", "circle", "huge", "full",
    ):  # fmt: skip
        codes = FINE if name in fine else REFUSED
        yield Case(f"npz-{name}", ("run", "data.source=npz", f"data.path={{}}/{name}.npz"), codes)
    tables = (
        "one-line", "one-cell", "open-quote", "nul", "nul-head", "columns", "commas", "same-names",
        "words", "infinite", "large-numbers", "long-number", "unicode-digits", "binary", "utf16",
        "latin", "many-classes", "escape", "empty", "head", "bom", "no-label", "images-devices",
        "images-pipe", "images-nul", "images-bombs", "images-long", "pipe", "zero", "random",
        "folder", "circle", "huge", "full",
    )  # fmt: skip
    for name in tables:
        yield Case(
            f"csv-{name}",
            (
                "data",
                "describe",
                "data.source=table",
                f"data.path={{}}/{name}.csv",
                "data.columns.label=label",
            ),
            REFUSED,
        )
    for name in (
        "garbage",
        "huge-footer",
        "minus-footer",
        "empty",
        "text",
        "pipe",
        "zero",
        "random",
        "folder",
        "circle",
        "huge",
    ):
        yield Case(
            f"parquet-{name}", ("run", "data.source=table", f"data.path={{}}/{name}.parquet")
        )
    folders = (
        "images-bomb", "images-lying", "images-nothing", "images-text", "images-eps",
        "images-bad-zlib", "images-pipes", "images-links", "images-circles", "images-folders",
        "cycle", "deep", "empty", "odd-names",
    )  # fmt: skip
    for name in folders:
        yield Case(
            f"folder-{name}",
            ("data", "describe", "data.source=folder", f"data.path={{}}/{name}", "data.size=8"),
        )
    yield Case("folder-proc", ("data", "describe", "data.source=folder", "data.path=/proc/self/fd"))
    yield Case(
        "folder-large",
        ("data", "describe", "data.source=folder", "data.path={}/images-text", "data.size=5000"),
    )
    yield Case(
        "clothing1m-zero",
        ("data", "describe", "data.source=clothing1m", "data.path={}/clothes", "data.size=8"),
    )
    for name in ("huge", "cut", "nothing", "zero", "text", "gzip-cut", "gzip-text", "gzip-bomb"):
        yield Case(f"idx-{name}", ("run", "data.source=mnist", f"data.path={{}}/idx-{name}"))
    yield Case("huggingface-file", ("run", "data.source=huggingface", "data.path={}/deep.json"))
    yield Case("huggingface-folder", ("run", "data.source=huggingface", "data.path={}/empty"))
    for name in ("pipe.png", "full.png", "zero.png"):
        yield Case(f"describe-out-{name}", ("data", "describe", "--out", f"{{}}/{name}"))
    yield Case("describe-out-folder", ("data", "describe", "--out", "{}/empty"))
    yield Case("describe-out-long", ("data", "describe", "--out", "n" * 300 + ".png"))


def _models() -> Iterator[Case]:
    """Models, and what to predict with one."""
    for name in (
        "long-header", "deep-header", "huge-tensor", "minus", "empty-header", "deep-card",
        "list-card", "number-card", "empty-card", "null-card", "classes-card", "shape-card",
        "float-shape-card", "minus-shape-card", "text-shape-card", "net-card", "method-card",
        "method-list-card", "mean-card", "cut", "nothing", "pipe", "zero", "random", "folder",
        "circle", "full",
    ):  # fmt: skip
        yield Case(f"model-{name}", ("predict", f"{{}}/{name}.safetensors", "{}/text.png"))
    good = ("predict", "{}/good.safetensors")
    for name in HEADERS:
        yield Case(f"npy-{name}", (*good, f"{{}}/{name}.npy"))
    for name in (
        "pipe.npy", "zero.npy", "random.npy", "folder.npy", "huge.npy", "pipe.npz", "bomb.npz",
        "huge.npz", "bomb.png", "wide.png", "large.png", "lying.png", "nothing.png",
        "text.png", "bad-zlib.png", "cut.jpg", "bomb.gif", "bomb.bmp", "bomb.tiff", "bomb.ppm",
        "eps.png", "pipe.png", "zero.png", "random.png", "circle.png", "huge.png", "pipe.csv",
        "zero.csv", "huge.csv", "one-line.csv", "garbage.parquet", "pipe.parquet", "deep",
        "images-pipes", "images-bomb", "cycle", "odd-names",
    ):  # fmt: skip
        yield Case(f"predict-{name}", (*good, f"{{}}/{name}"))
    yield Case("predict-polyglot", (*good, "{}/polyglot.png"), FINE)
    yield Case("predict-cut.png", (*good, "{}/cut.png"), FINE)
    for path in ("/dev/zero", "/dev/stdin", "", "n" * 5000, "/proc/self/mem"):
        yield Case(f"predict {path[:8]!r}", (*good, path))
        yield Case(f"predict-with {path[:8]!r}", ("predict", path, "{}/text.png"))
    for out in (
        "{}/pipe.csv",
        "{}/full.csv",
        "{}/zero.csv",
        "{}/empty",
        "n" * 300,
        "",
        "/proc/x.csv",
    ):
        yield Case(f"predict --out {out[:8]!r}", (*good, "{}/polyglot.png", "--out", out))


def _commands() -> Iterator[Case]:
    """The other commands and options."""
    for name in (
        "config-deep", "config-pipe", "config-zero", "config-folder", "config-empty", "config-nul",
        "draw-pipe", "draw-zero", "draw-bomb", "draw-empty", "draw-text", "draw-recipe",
        "draw-offsets",
    ):  # fmt: skip
        yield Case(f"resume-{name}", ("resume", f"{{}}/run-{name}"))
        yield Case(f"report-{name}", ("report", f"{{}}/run-{name}"))
    for name in ("config-pipe", "config-deep", "config-zero"):
        yield Case(f"resume-more-{name}", ("resume", f"{{}}/run-{name}", "rounds=9"))
    for path in ("{}/zero.npz", "", "n" * 5000, "/proc/self", "{}/pipe.npz"):
        yield Case(f"resume {path[:8]!r}", ("resume", path))
        yield Case(f"report {path[:8]!r}", ("report", path))
    tiny = ("rounds=3", "warmup.iterations=0", "data.images=200", "train.epochs=1")
    for out in (
        "{}/full.npz",
        "{}/zero.npz",
        "{}/text.png",
        "n" * 300,
        "",
        ".",
        "{}/pipe.npz",
        "/proc/x",
        "{}/pipe.npz/x",
        "d/" * 3000,
    ):
        yield Case(f"run --out {out[:8]!r}", ("run", *tiny, "--out", out))
        if out not in ("", "."):
            yield Case(f"init {out[:8]!r}", ("deploy", "init", out))
    for sites in ("", ",", "a," * 100_000, "../x", "n" * 64, "\x1b[2J", "a,A", ".", "\udcff"):
        yield Case(f"init --sites {sites[:8]!r}", ("deploy", "init", "new", "--sites", sites))
    for address in (
        "",
        ":",
        "x:0",
        "x:99999",
        "x:" + "9" * 100_000,
        "[::]:1",
        "x:١٢",
        "n" * 100_000 + ":1",
        "x:-1",
        "0x7f.1:80",
        "\udcff:1",
    ):
        yield Case(
            f"init --address {address[:8]!r}", ("deploy", "init", "new", "--address", address)
        )
    for variable in ("FEDDIV_DATA", "FEDDIV_CACHE"):
        for value in (
            "{}/zero.npz",
            "{}/zero.npz/x",
            "n" * 5000,
            "~nobody-of-that-name/x",
            "\udcff",
            "/proc/x",
            "{}/pipe.npz",
            "\x1b[2J",
        ):
            for command in (
                ("data", "get", "mnist", "--url", "http://127.0.0.1:9/"),
                ("data", "check", "mnist"),
                ("run", "data.source=mnist"),
            ):
                yield Case(
                    f"{variable}={value[:10]!r} {command[1]}",
                    command,
                    environment={variable: value},
                )
    for url in (
        "",
        "file:///etc/passwd",
        "http://",
        "http://[",
        "http://a b/",
        "http://127.0.0.1:99999/",
        "ftp://x/",
        "http://" + "a" * 100_000 + "/",
        "http://127.0.0.1:x/",
        "http://\udcff/",
        "http://127.0.0.1:9/\n",
        "gopher:x",
        "http://[::1",
        "http://x:" + "9" * 5000 + "/",
    ):
        yield Case(f"get --url {url[:14]!r}", ("data", "get", "mnist", "--url", url))
    for name in ("", "n" * 1_000_000, "../x", "\x1b[2J", "\udcff"):
        yield Case(f"get {name[:6]!r}", ("data", "get", name))
        yield Case(f"check {name[:6]!r}", ("data", "check", name))
        yield Case(f"list {name[:6]!r}", ("list", name))
        yield Case(f"list methods {name[:6]!r}", ("list", "methods", name))
    for path in ("os:_exit", "sys:exit", ":", "a:b:c", "x." * 10_000 + ":y", "antigravity:x"):
        yield Case(f"list methods {path[:12]!r}", ("list", "methods", path))


def cases() -> list[Case]:
    """All of them."""
    groups = (_numbers, _settings, _configs, _data, _models, _commands)
    return [case for group in groups for case in group()]
