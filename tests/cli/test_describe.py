import json

import pytest
from PIL import Image
from tests.data.pictures import picture

from feddiv.config.reading import load_experiment
from feddiv.runs.prepare import drawn


def test_describe_shows_every_client(command, tmp_path):
    outcome = command("data", "describe", "digits-noniid", "clients.count=4", "--out", "mine.png")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].split() == [
        "client", "samples", "classes", "noise", "level", "wrong", "largest",
    ]  # fmt: skip
    _, draw = drawn(load_experiment("digits-noniid", ["clients.count=4"]))
    for client, part in enumerate(draw.parts):
        assert lines[1 + client].split()[:2] == [str(client), str(len(part))]
        assert f"{draw.levels[client]:.1%}" in lines[1 + client]
    assert draw.hash in outcome.out
    assert "mine.png" in outcome.out
    assert [path.name for path in tmp_path.iterdir()] == ["mine.png"]


def test_describe_as_json_is_the_draw_in_numbers(command):
    outcome = command("data", "describe", "digits-noniid", "seed=3", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    told = json.loads(outcome.out)
    _, draw = drawn(load_experiment("digits-noniid", ["seed=3"]))
    assert told["draw"] == draw.hash
    assert [client["samples"] for client in told["clients"]] == [len(part) for part in draw.parts]
    assert [client["level"] for client in told["clients"]] == draw.levels.tolist()
    assert {client["kind"] for client in told["clients"]} == {"none", "symmetric"}
    assert told["classes"] == [str(digit) for digit in range(10)]
    assert sum(sum(client["counts"]) for client in told["clients"]) == told["samples"] == 1437


def test_describe_counts_what_is_kept_out(command):
    settings = ["data.images=200", "evaluation.name=held_out", "clients.count=4"]
    outcome = command("data", "describe", "quickstart", *settings)
    assert outcome.out.splitlines()[0].split()[:5] == [
        "client",
        "samples",
        "held",
        "out",
        "classes",
    ]
    assert "160 samples at 4 clients" in outcome.out
    assert "0 samples at none" in outcome.out
    assert "Kept out of training: 40 samples more" in outcome.out
    told = json.loads(command("data", "describe", "quickstart", *settings, "--json").out)
    assert (told["held_out"], told["unheld"]) == (40, 0)
    assert [client["held_out"] for client in told["clients"]] == [10] * 4


def test_describe_says_that_images_are_prepared_and_knows_no_quality(command, tmp_path):
    for name, colour in (("cat", "red"), ("dog", "blue")):
        (tmp_path / "mine" / name).mkdir(parents=True)
        for number in range(10):
            Image.new("RGB", (9, 9), colour).save(tmp_path / "mine" / name / f"{number}.png")
    settings = ["data.source=folder", "data.path=mine", "data.size=8", "clients.count=2"]
    outcome = command("data", "describe", *settings, "--json")
    assert outcome.code == 0
    assert "20 images are resized to 8x8 pixels" in outcome.err
    assert [client["kind"] for client in json.loads(outcome.out)["clients"]] == ["", ""]


@pytest.mark.parametrize(("clients", "middle"), [(3, "392"), (4, "287.5")])
def test_the_median_of_an_even_number_of_clients_lies_between_two(command, clients, middle):
    sizes = ["partition.name=quantity", f"clients.count={clients}"]
    assert f"median {middle})" in command("data", "describe", "quickstart", *sizes).out


def test_names_do_nothing_to_the_terminal(command, tmp_path):
    odd = "cat\x1b[31m\nred"
    for client in ("north\x1b[2J", "south"):
        for name in (odd, "dog"):
            picture(tmp_path / "mine" / client / name / "1.png")
            picture(tmp_path / "mine" / client / name / "2.png")
    picture(tmp_path / "mine" / "out\x1b[2J.png")
    settings = ["data.source=folder", "data.path=mine", "data.size=8", "data.test_share=0.5"]
    clients = ["data.layout=client", "partition.name=natural", "--out", "mine.png"]
    (tmp_path / "mine" / "north\x1b[2J" / odd / "\x1b[1mnotes.txt").write_text("no image")
    outcome = command("data", "describe", *settings, *clients)
    assert outcome.code == 0, outcome.err
    assert r"north\x1b[2J  " in outcome.out
    assert r"cat\x1b[31m\nred: 1" in outcome.out
    assert r"(out\x1b[2J.png)" in outcome.err
    assert r"north\x1b[2J/cat\x1b[31m\nred/\x1b[1mnotes.txt" in outcome.err
    refused = command("data", "describe", *settings)
    assert r"north\x1b[2J/cat\x1b[31m red/1.png lies deeper" in refused.err
    assert "\x1b" not in outcome.out + outcome.err + refused.err
    (told,) = (
        c
        for c in json.loads(command("data", "describe", *settings, *clients, "--json").out)[
            "clients"
        ]
        if c["client"] == 0
    )
    assert told["name"] == "north\x1b[2J", "programs get names as they are"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["nowhere"], "'nowhere' is no file and no preset"),
        (["noise.name=human"], "there are no human labels for digits"),
        (["noise.name=open_set", "noise.rho=1"], "noise.source has to name"),
        (["noise.name=pair", "noise.level=0.5"], "level has no meaning with levels=bernoulli"),
        (["noise.name=pair", "noise.map=back"], "allowed are next, cifar10"),
        (["noise.name=mixed"], "noise.kinds has to list"),
        (["noise.name=mixed", "noise.kinds=['loud']"], "noise.kinds: 'loud' is unknown"),
        (["partition.name=natural"], "does not say which client"),
        (["partition.name=annotator"], "digits has no known annotators"),
        (["partition.name=quantity", "partition.exponent=9"], "smallest of 10 clients 0 of 1437"),
        (
            ["partition.name=shards", "partition.per_client=500"],
            "1437 training samples are too",
        ),
        (["--out", "picture.doc"], "a picture's name ends in .png"),
        (["--out", "no/where.png"], "there is no folder no"),
    ],
)
def test_bad_input(refused, settings, said):
    assert said in refused("data", "describe", *settings)
