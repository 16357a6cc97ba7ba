"""Sites with data of their own: classes by name, a folder of their own, servers that stop."""

import csv
import sys

import pytest

pytest.importorskip("flwr")

from flwr.app import Error
from flwr.app import Message as FlowerMessage
from tests.flower.own_data import CLASSES, site_folder, sites_grid
from tests.flower.trial import lines, local, run_config, served, trial_grid

from feddiv.core.errors import TooFew, UserError
from feddiv.data.corrections import Decision, DecisionKind, append
from feddiv.flower.grid_federation import HELLO, NOBODY
from feddiv.flower.records import SiteTask, VisitAddress, message_records
from feddiv.flower.seats import Seat, Seats
from feddiv.flower.site import Site, SiteMemory
from feddiv.flower.site_data import Part
from feddiv.methods.contract import Message

pytestmark = pytest.mark.slow


def audit(folder, name):
    with (folder / name / "state" / "labels.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_sites_train_together_and_each_gets_its_audit(deployment):
    grid, config = sites_grid(deployment)
    run = served(grid, config)
    assert run.summary["last_held_out_accuracy"] > 0.5
    assert run.summary["classes"] == list(CLASSES)
    table = audit(deployment, "a")
    assert len(table) == 60  # also those that are kept out of training
    assert set(table[0]) == {
        "sample",
        "given_label",
        "predicted_label",
        "label_quality",
        "is_label_issue",
        "confidence",
        "action",
    }
    qualities = [float(row["label_quality"]) for row in table]
    issues = [row["is_label_issue"] == "True" for row in table]
    assert qualities == sorted(qualities)  # the worst first
    assert issues == sorted(issues, reverse=True)
    assert sum(issues) == pytest.approx(60 - sum(qualities), abs=1)  # as many as look wrong
    page = (deployment / "a" / "state" / "labels.html").read_text()
    assert "Labels of this site" in page
    for row in table:
        assert (deployment / "a" / "images" / row["sample"]).is_file()
        assert row["sample"].startswith(row["given_label"])
    assert {row["given_label"] for row in audit(deployment, "b")} == set(CLASSES[:3])
    assert {line["client"] for line in lines(deployment / "run" / "clients.jsonl")} == {0, 1}


def test_a_site_trusts_what_its_experts_decided(deployment, capfd):
    """Its file stays with it; a file of other data keeps it out, and the server learns no name."""
    first, *_ = sorted((deployment / "a" / "images").rglob("*.png"))
    name = first.relative_to(deployment / "a" / "images").as_posix()
    given = name.partition("/")[0]
    other = next(each for each in CLASSES if each != given)
    file = deployment / "a" / "corrections.csv"
    row = Decision(name, given, DecisionKind.CORRECT, other, "ann", "2026-01-02T03:04:05Z")
    append(file, [row])
    grid, config = sites_grid(deployment)
    next(iter(grid.nodes.values()))["corrections"] = str(file)
    served(grid, config)
    [listed] = [row for row in audit(deployment, "a") if row["sample"] == name]
    assert listed["given_label"] == other
    assert (float(listed["label_quality"]), listed["action"]) == (1.0, "keep")
    assert "samples, 1 of them by experts" in capfd.readouterr().out


def test_what_is_decided_while_a_run_goes_on_counts_in_the_next(deployment):
    """Else the counts of two messages would tell the server what was decided about a sample."""
    from feddiv.review.decisions import Decisions
    from feddiv.review.opening import reviewable

    state = deployment / "a" / "state"
    images = deployment / "a" / "images"
    first, second, *_ = sorted(
        file.relative_to(images).as_posix() for file in images.rglob("*.png")
    )
    time = "2026-01-02T03:04:05Z"
    given, other = CLASSES[1], CLASSES[3]
    assert first.startswith(given)
    assert second.startswith(given)
    file = state / "corrections.csv"
    state.mkdir()
    append(file, [Decision(first, given, DecisionKind.CORRECT, other, "ann", time)])
    answers = []

    def decide(node, message, reply):
        answers.append(node)
        if len(answers) == 6:
            append(file, [Decision(second, given, DecisionKind.CORRECT, other, "ann", time)])
        return reply

    def listed():
        return {row["sample"]: row["given_label"] for row in audit(deployment, "a")}

    grid, config = sites_grid(deployment)
    grid.nodes[5]["corrections"] = str(file)
    grid.meddle = decide
    served(grid, config)
    assert len(answers) > 6
    assert (listed()[first], listed()[second]) == (other, given)
    grid, config = sites_grid(deployment, out=str(deployment / "next"))
    grid.nodes[5]["corrections"] = str(state)  # the folder: what runs have kept is none of it
    served(grid, config)
    assert (listed()[first], listed()[second]) == (other, other)
    [site] = reviewable(state)
    assert len(Decisions(site.open(), "ann").news()["states"]) == 2


def test_corrections_of_other_data_keep_a_site_out(deployment, capfd):
    file = deployment / "a" / "corrections.csv"
    row = Decision("secret.png", CLASSES[0], DecisionKind.SKIP, "", "ann", "2026-01-02T03:04:05Z")
    append(file, [row])
    grid, config = sites_grid(deployment)
    next(iter(grid.nodes.values()))["corrections"] = str(file)
    with pytest.raises((TooFew, UserError)) as problem:
        served(grid, config)
    assert "secret" not in str(problem.value)
    assert "sample 'secret.png': the data have no such sample" in capfd.readouterr().out


def test_the_server_of_sites_has_no_corrections(deployment):
    file = deployment / "experiment.toml"
    file.write_text(file.read_text().replace('"sites",', '"sites", corrections = ["c.csv"],'))
    grid, config = sites_grid(deployment)
    with pytest.raises(UserError, match="each site names its own file by corrections="):
        served(grid, config)


COLOURS = "tests.encoders.colours:Colours"


def encoder_grid(deployment, name, **own):
    """The sites' images go through an encoder; `own` is what the node config of site b says."""
    file = deployment / "experiment.toml"
    text = file.read_text().replace("size = 8, channels = 1", f'encoder = "{name}", channels = 1')
    file.write_text(text)
    grid, config = sites_grid(deployment)
    for number, node in enumerate(grid.nodes.values()):
        node.update({"encoder": COLOURS} if number == 0 else own)
    return grid, config


def test_sites_encode_their_images_at_home(deployment):
    pytest.importorskip("onnx", reason="needs the dev extra")
    grid, config = encoder_grid(deployment, COLOURS, encoder=COLOURS)
    run = served(grid, config)
    assert run.summary["last_held_out_accuracy"] > 0.2
    assert len(audit(deployment, "a")) == 60


@pytest.mark.parametrize(
    ("own", "said", "told"),
    [
        (
            "tests.encoders.colours:OtherColours",
            "its weights are others than those of this run (sha256",
            "its encoder has other weights than the run's",
        ),
        (
            "/srv/secret/colours.onn",
            "data.encoder='/srv/secret/colours.onn' is no encoder",
            "its node config names no encoder",
        ),
        (None, "this site has not said where that encoder is", "where that encoder is"),
    ],
)
def test_a_site_with_another_encoder_stays_out(deployment, capsys, own, said, told):
    """What its own is called, and which weights it has, is told at home alone."""
    pytest.importorskip("onnx", reason="needs the dev extra")
    grid, config = encoder_grid(deployment, COLOURS, **({} if own is None else {"encoder": own}))
    with pytest.raises(TooFew, match=told) as problem:
        served(grid, config)
    found = [line for line in capsys.readouterr().out.splitlines() if said in line]
    assert all("data.encoder=" in line for line in found)
    assert found
    if own is not None:
        assert own not in str(problem.value)
        assert "sha256" not in str(problem.value)


def test_a_class_that_nobody_else_has_keeps_its_site_out(deployment, capsys):
    site_folder(deployment / "c" / "images", range(0, 20))
    (deployment / "c" / "images" / "three").rename(deployment / "c" / "images" / "dog")
    grid, config = sites_grid(deployment, ("a", "c"))
    with pytest.raises(TooFew, match=r"none of the run's: .* zero, one") as told:
        served(grid, config)
    assert "dog" not in str(told.value)  # a label is the site's own affair, and in its log
    assert "class 'dog' is none of the run's" in capsys.readouterr().out
    assert not (deployment / "run" / "summary.json").exists()
    grid, config = sites_grid(deployment, ("a", "b", "c"), out=str(deployment / "again"))
    served(grid, config)  # goes well without it
    assert "class 'dog' is none of the run's" in capsys.readouterr().out


def test_another_version_is_refused_in_one_line(deployment, monkeypatch):
    monkeypatch.setattr("feddiv.flower.site.SOFTWARE", "0.0.9")
    grid, config = sites_grid(deployment)
    with pytest.raises(TooFew, match=r"has feddiv 0.0.9, the server .*: install the same"):
        served(grid, config)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"data-path": "nowhere"}, "its data cannot be used: its log says why"),
        ({"site-path": None}, "site-path"),
        ({"data-path": None}, "give data-path"),
        ({"disk": "big"}, "node config disk: is unknown; allowed: data-path"),
    ],
)
def test_a_bad_node_config_is_told_to_the_server(deployment, change, said):
    grid, config = sites_grid(deployment)
    node = grid.nodes[6]
    grid.nodes[6] = {k: v for k, v in {**node, **change}.items() if v is not None}
    with pytest.raises(TooFew, match=said):
        served(grid, config)


def test_a_net_from_a_module_is_built_only_where_the_site_allows_it(deployment):
    config = (deployment / "experiment.toml").read_text()
    net = "tests.flower.nets:small"
    (deployment / "experiment.toml").write_text(config.replace('"mlp"', f'"{net}"'))
    grid, config = sites_grid(deployment)
    with pytest.raises(TooFew, match="builds no net from a module that it has not allowed"):
        served(grid, config)
    grid, config = sites_grid(deployment, out=str(deployment / "allowed"))
    for node in grid.nodes.values():
        node["allow-net"] = net
    assert served(grid, config).summary["model_hash"]


def test_noise_from_a_module_is_imported_only_where_the_site_allows_it(tmp_path, monkeypatch):
    module = "site_noise"
    (tmp_path / f"{module}.py").write_text(
        "from feddiv.data.noise import Symmetric\n\n\nclass Noise(Symmetric):\n    name: str\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    noise = f"{module}:Noise"
    settings = {"noise__name": noise, "noise__rho": 0.5}
    config = run_config(tmp_path / "run", federation__wait=0.2, **settings)
    task = SiteTask(VisitAddress("0" * 32, 0, 0, "", NOBODY), HELLO, f'noise.name = "{noise}"')
    records = message_records(task, Message(HELLO))
    site = Site(tmp_path / "site", Part(0))
    said = "imports no noise from a module that it has not allowed"
    assert said in str(site.answer(records)["problem"])
    assert module not in sys.modules
    with pytest.raises(TooFew, match=said):
        served(trial_grid(config), config)
    config = run_config(tmp_path / "allowed", **settings)
    grid = trial_grid(config)
    for node in grid.nodes.values():
        node["allow-noise"] = noise
    there = served(grid, config).summary
    here = local(tmp_path / "here", **settings).summary
    assert there["draw"] == here["draw"]
    assert there["model_hash"] == here["model_hash"]


def test_a_method_from_a_module_is_run_only_where_the_site_allows_it(deployment, monkeypatch):
    module = "site_method"
    (deployment / f"{module}.py").write_text(
        "from examples.own_method.small_loss import SmallLoss\n\n\n"
        "class Mine(SmallLoss):\n    pass\n"
    )
    monkeypatch.syspath_prepend(deployment)
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    method = f"{module}:Mine"
    said = f"method.name={method}: this site runs no method from a module that it has not allowed"
    for text in (f'method.name = "{method}"', f'method.name = ["{method}"]'):
        task = SiteTask(VisitAddress("0" * 32, 0, 0, "", NOBODY), HELLO, text)
        answer = Site(deployment / "site", Part(0)).answer(message_records(task, Message(HELLO)))
        assert "runs no method from a module that it has not allowed" in str(answer["problem"])
    task = SiteTask(VisitAddress("0" * 32, 0, 0, "", NOBODY), HELLO, f'against = ["{method}"]')
    Site(deployment / "site", Part(0)).answer(message_records(task, Message(HELLO)))
    assert module not in sys.modules  # nor is it imported

    with (deployment / "experiment.toml").open("a") as file:
        file.write(f'method = {{ name = "{method}", variant = "half" }}\n')
    grid, config = sites_grid(deployment)
    with pytest.raises(TooFew, match=said):
        served(grid, config)
    grid, config = sites_grid(deployment, out=str(deployment / "allowed"))
    for node in grid.nodes.values():
        node["allow-method"] = method
    assert served(grid, config).summary["variant"] == "half"


class Crash(BaseException):
    """The server is gone."""


@pytest.mark.parametrize("stop", [3, 6, 8, 11])
def test_a_server_that_stops_goes_on_bit_for_bit(deployment, stop):
    grid, config = sites_grid(deployment)
    whole = served(grid, config).summary["model_hash"]
    grid, config = sites_grid(deployment, out=str(deployment / "stopped"))
    stopped_after(grid, stop)
    with pytest.raises(Crash):
        served(grid, config)
    grid, config = sites_grid(deployment, ("b", "a"), out=str(deployment / "stopped"), resume=True)
    run = served(grid, config)  # other nodes, the same keys
    assert run.summary["model_hash"] == whole
    assert len(run.rounds) == 4


def test_a_finished_run_goes_on_with_more_rounds(tmp_path):
    config = run_config(tmp_path / "run")
    served(trial_grid(config), config)
    longer = {"out": str(tmp_path / "run"), "resume": True, "rounds": 5}
    there = served(trial_grid(longer), longer).summary
    assert there["rounds"] == 5
    assert there["model_hash"] == local(tmp_path / "here", rounds=5).summary["model_hash"]


def stopped_after(grid, answers):
    """The server is gone after so many answers."""
    seen = []

    def crash(node, message, reply):
        seen.append(reply)
        if len(seen) == answers:
            raise Crash
        return reply

    grid.meddle = crash


def test_the_checkpoint_before_the_last_can_be_used_after_a_resume_too(deployment):
    grid, config = sites_grid(deployment)
    whole = served(grid, config).summary["model_hash"]
    keys = {"out": str(deployment / "stopped")}
    for answers, resume in ((14, False), (4, True)):
        grid, config = sites_grid(deployment, resume=resume, **keys)
        stopped_after(grid, answers)
        with pytest.raises(Crash):
            served(grid, config)
    *_, newest = sorted((deployment / "stopped" / "checkpoint").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-9])
    grid, config = sites_grid(deployment, resume=True, **keys)
    assert served(grid, config).summary["model_hash"] == whole


def test_a_run_goes_on_only_with_sites_that_it_knows(deployment):
    site_folder(deployment / "c" / "images", range(110, 150))
    grid, config = sites_grid(deployment)
    stopped_after(grid, 6)
    with pytest.raises(Crash):
        served(grid, config)
    grid, config = sites_grid(deployment, ("c", "d"), resume=True)
    del grid.nodes[6]
    with pytest.raises(TooFew, match="0 of 1 sites are there"):
        served(grid, config)


def test_a_run_goes_on_as_it_was_begun_but_for_its_patience(deployment):
    grid, config = sites_grid(deployment, rounds=5)
    stopped_after(grid, 9)
    with pytest.raises(Crash):
        served(grid, config)
    grid, config = sites_grid(deployment, resume=True)  # with an experiment.toml of 4 rounds
    with pytest.raises(UserError, match=r"^rounds=4: the run in .* was begun with 5"):
        served(grid, config)
    patience = {"federation-wait": 0.7, "federation-attempts": 5, "checkpoint-seconds": 3.0}
    for given in ({**patience, "rounds": 5}, patience, {"rounds": 6}):
        grid, config = sites_grid(deployment, resume=True, config="", **given)
        # The second time it is finished, and the third time it gets another round.
        assert len(served(grid, config).rounds) == given.get("rounds", 5)


def test_sites_of_one_name_are_told_apart():
    seats = Seats()
    for client, name in enumerate(["north", "south", "north"]):
        seats.by_key[str(client)] = Seat(client, str(client), name, 10)
    assert [seats.name(client) for client in (0, 1, 2, 3)] == [
        "north (client 0)",
        "south",
        "north (client 2)",
        "3",
    ]


def test_a_late_visit_does_not_forget_what_came_after_it(tmp_path):
    memory = SiteMemory(tmp_path, type(None))
    first, late, newer, newest = (f"00000{n}-0000-0" for n in (1, 2, 3, 4))
    record = memory.records.write(None, "visit")
    memory.write(first, record, "", ())
    memory.write(newer, record, first, (first,))
    memory.write(late, record, first, (first,))
    assert memory.read(newer) == record
    memory.write(newest, record, newer, (newer,))
    assert sorted(file.stem for file in tmp_path.glob("*.memory")) == [newer, newest]


def test_a_repeated_message_gives_the_same_reply(deployment):
    grid, config = sites_grid(deployment)
    kept = []
    grid.meddle = lambda node, message, reply: kept.append((node, message, reply)) or reply
    served(grid, config)
    from flwr.app import Context, RecordDict

    node, message, reply = kept[-3]  # the last visits are the assessment
    context = Context(
        run_id=1, node_id=node, node_config=grid.nodes[node], state=RecordDict(), run_config=config
    )
    again = grid.app(message, context)
    assert again.content == reply.content


def test_a_site_forgets_what_the_server_will_not_come_back_to(deployment):
    grid, config = sites_grid(deployment)
    served(grid, config)
    versions = list((deployment / "a" / "state" / "runs").glob("*/*/*.memory"))
    assert 1 <= len(versions) <= 5


def test_a_lost_state_is_named(deployment):
    grid, config = sites_grid(deployment)

    def lose(node, message, reply):
        if node == 5 and int(message.content["task"]["round"]) == 3:
            for file in (deployment / "a" / "state" / "runs").glob("*/*/*.memory"):
                file.unlink()
        return reply

    grid.meddle = lose
    served(grid, config)
    told = [str(line.get("missing")) for line in lines(deployment / "run" / "clients.jsonl")]
    assert any("the memory that the server wants to start from is gone" in text for text in told)


def test_a_site_that_changed_its_data_is_refused(deployment):
    grid, config = sites_grid(deployment)

    def crash(node, message, reply):
        if int(message.content["task"]["round"]) == 3:
            raise Crash
        return reply

    grid.meddle = crash
    with pytest.raises(Crash):
        served(grid, config)
    next((deployment / "b" / "images" / "one").iterdir()).unlink()
    grid, config = sites_grid(deployment, resume=True)
    run = served(grid, config)
    assert [1] in [line["missing"] for line in run.rounds]


def test_what_is_wrong_with_a_sites_data_stays_with_it(deployment, capsys):
    table = deployment / "b" / "table.csv"
    table.write_text("image,label\nsecret-4711.png,zero\nsecret-4712.png,one\n")
    grid, config = sites_grid(deployment)
    grid.nodes[6]["data-path"] = str(table)
    with pytest.raises(TooFew, match="its data cannot be used: its log says why") as told:
        served(grid, config)
    assert "secret" not in str(told.value)
    assert "secret-4711" in capsys.readouterr().out


def test_an_unexpected_failure_is_told_by_its_kind_only(deployment, monkeypatch, capsys):
    def fails(*given, **more):
        raise RuntimeError("row 7: Jane Doe")

    monkeypatch.setattr("feddiv.flower.site.make_visit", fails)
    grid, config = sites_grid(deployment)
    with pytest.raises(TooFew):
        served(grid, config)
    journal = (deployment / "run" / "clients.jsonl").read_text()
    assert "failed (RuntimeError): its log says why" in journal
    assert "Jane" not in journal
    assert "row 7: Jane Doe" in capsys.readouterr().err


def test_methods_are_not_compared_between_real_sites(deployment):
    config = (deployment / "experiment.toml").read_text()
    (deployment / "experiment.toml").write_text('against = ["fedavg"]\n' + config)
    grid, config = sites_grid(deployment)
    with pytest.raises(UserError, match=r"against=fedavg: data\.source=sites"):
        served(grid, config)


@pytest.mark.parametrize("place", [0.0, float("nan"), float("inf"), 1e12, 0.5])
def test_a_place_that_a_site_claims_counts_for_nothing(deployment, place):
    """With node keys a site is who its key says, whatever partition its node config names."""
    whole = served(*sites_grid(deployment)).summary["model_hash"]
    grid, config = sites_grid(deployment, out=str(deployment / "again"))

    def claims(node, message, reply):
        if node == 6 and message.content["task"]["kind"] == "hello":
            reply.content["metrics"]["place"] = place
        return reply

    grid.meddle = claims
    assert served(grid, config).summary["model_hash"] == whole


def test_every_run_keeps_its_audit_and_the_newest_lies_on_top(deployment):
    for name in ("first", "second"):
        grid, config = sites_grid(deployment, out=str(deployment / name))
        served(grid, config)
    state = deployment / "a" / "state"
    kept = [file.read_text() for file in state.glob("runs/*/*/labels.csv")]
    assert len(kept) == 2
    assert (state / "labels.csv").read_text() in kept


def test_sites_need_a_folder_for_the_run(deployment):
    grid, config = sites_grid(deployment, out="")
    with pytest.raises(UserError, match='out="…" has to name the folder'):
        served(grid, config)


def test_classes_that_the_server_names_like_formulas_are_text_in_the_audit(deployment):
    """A spreadsheet that opens the audit runs nothing."""
    experiment = deployment / "experiment.toml"
    experiment.write_text(experiment.read_text().replace("'zero'", "'=HYPERLINK(1)'"))
    for name in ("a", "b"):
        (deployment / name / "images" / "zero").rename(
            deployment / name / "images" / "=HYPERLINK(1)"
        )
    grid, config = sites_grid(deployment)
    served(grid, config)
    rows = audit(deployment, "a")
    cells = {row[key] for row in rows for key in ("sample", "given_label", "predicted_label")}
    assert "'=HYPERLINK(1)" in cells
    assert not any(cell.startswith("=") for cell in cells)


def test_names_of_nodes_and_what_sites_say_do_nothing_to_the_log(deployment, capsys):
    grid, config = sites_grid(deployment)
    grid.names[5] = "\x1b[2Jnorth\nfeddiv: round 9 (train): fine" + "x" * 10_000
    reasons = []

    def spoil(node, message, reply):
        if node == 6 and message.content["task"]["kind"] == "train" and not reasons:
            reasons.append(node)
            forged = "no\x1b[31m\nfeddiv: finished" + "x" * 10**6
            return FlowerMessage(Error(7, forged), reply_to=message)
        return reply

    grid.meddle = spoil
    served(grid, config)
    said = capsys.readouterr().out
    assert reasons
    assert "\x1b" not in said
    assert max(map(len, said.splitlines())) < 500
    assert not any(line.startswith("feddiv: round 9") for line in said.splitlines())
    journal = lines(deployment / "run" / "clients.jsonl")
    assert max(len(str(line.get("missing", ""))) for line in journal) < 500


def test_what_a_server_names_does_nothing_to_a_sites_log(tmp_path, capsys):
    address = VisitAddress("ab" * 16, 0, 0, "", NOBODY)
    task = SiteTask(address, HELLO, "seed = 1", software="\x1b[2J9\nfeddiv: all is well" * 10**5)
    Site(tmp_path, Part(0)).answer(message_records(task, Message(HELLO)))
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert len(said.splitlines()) == 1
    assert len(said) < 2100


def test_sites_that_share_a_classifier_audit_without_training(deployment):
    grid, config = sites_grid(deployment)
    served(grid, config)
    weights = deployment / "run" / "model.safetensors"
    (deployment / "a" / "state" / "labels.csv").unlink()
    wanted = f"method.name=feddiv-audit rounds=1 warmup.iterations=0 model.weights={weights}"
    grid, config = sites_grid(deployment, out=str(deployment / "audit"), settings=wanted)
    run = served(grid, config)
    assert run.summary["bytes_up"] < 20_000  # a few hundred numbers a site, and held-out counts
    assert len(audit(deployment, "a")) == 60
    assert (deployment / "a" / "state" / "labels.html").is_file()
