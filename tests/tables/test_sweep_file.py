"""A sweep's file: what its jobs are, and what is refused in one line that names it."""

from pathlib import Path
from typing import Any

import pytest

from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.tables.plan import plan_of
from feddiv.tables.rows import Row
from feddiv.tables.sweep_file import read_sweep

MINE = {"settings": ["quickstart"], "methods": ["fedavg", "feddiv-paper"], "seeds": [3, 4]}


def test_jobs_are_methods_by_settings_by_seeds() -> None:
    sweep = read_sweep(
        {
            "settings": {
                "IID": "quickstart",
                "mild": {"base": "quickstart", "paper": "x", "noise": {"rho": 0.4}},
            },
            "methods": {
                "FedAvg": "fedavg",
                "mine": {"name": "feddiv-paper", "filter": {"fit": "global"}},
            },
            "options": {"rounds": 20, "warmup": {"iterations": 2}},
            "seeds": [3, 4],
        }
    )
    assert len(sweep.jobs) == 8
    assert (sweep.settings, sweep.methods, sweep.seeds) == (
        ["IID", "mild"],
        ["FedAvg", "mine"],
        [3, 4],
    )
    job = sweep.jobs[3]
    assert (job.setting, job.method, job.seed, job.paper) == ("mild", "mine", 3, "x")
    assert job.command == (
        "feddiv run quickstart rounds=20 warmup.iterations=2 noise.rho=0.4 "
        "method.name=feddiv-paper method.filter.fit=global seed=3 'against=[]'"
    )
    preset, *typed = job.arguments
    assert load_experiment(preset, typed) == job.experiment
    assert job.experiment.against == ()


def test_all_methods_of_a_setting_have_the_same_draw_of_a_seed() -> None:
    first, second, *_ = read_sweep(MINE).jobs
    assert first.seed == second.seed
    both = [job.experiment.model_dump(exclude={"method"}) for job in (first, second)]
    assert both[0] == both[1], "the draw depends on nothing else"


def test_a_folder_belongs_to_the_options() -> None:
    folders = {job.folder for job in read_sweep(MINE).jobs}
    changed = {job.folder for job in read_sweep({**MINE, "options": {"rounds": 9}}).jobs}
    assert len(folders | changed) == 8
    noted = {job.folder for job in read_sweep({**MINE, "options": {"description": "x"}}).jobs}
    assert noted == folders


def test_a_files_paths_begin_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('base = "digits-clean"\nrounds = 12\n')
    file = tmp_path / "mine.toml"
    file.write_text(
        'settings = { own = "own.toml" }\nmethods = ["fedavg"]\nseeds = [0]\nrows = "kept.jsonl"\n'
    )
    sweep = read_sweep(file)
    assert (sweep.name, sweep.rows) == ("mine", tmp_path / "kept.jsonl")
    assert sweep.jobs[0].experiment.rounds == 12


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"methods": ["fedagv"]}, r"methods\.fedagv: 'fedagv' is unknown \(did you mean 'fedavg'"),
        ({"methods": {"a": {"name": "feddiv-papr"}}}, r"'feddiv-papr' is unknown"),
        (
            {"methods": {"a": {"name": "fedavg", "mixap": True}}},
            r"'a'.*method\.mixap is an",
        ),
        ({"methods": {"a": {"mixup": True}}}, r"methods\.a: give a method's name"),
        ({"methods": []}, r"methods is empty"),
        ({"methods": ["fedavg", "fedavg"]}, r"methods names one twice"),
        ({"method": "fedavg"}, r"method is an unknown key \(did you mean 'methods'\?\)"),
        ({"settings": ["quickstrat"]}, r"quickstrat.*did you mean 'quickstart'"),
        ({"settings": {"a": {"noise": {"rho": 0.4}}}}, r"settings\.a: .*base = PRESET"),
        ({"settings": {"a": {"base": "quickstart", "seed": 3}}}, r"settings\.a: seed is not"),
        ({"options": {"nois": {"rho": 0.5}}}, r"nois.* is an unknown key"),
        ({"options": {"method": {"mixup": True}}}, r"method\.mixup is not a setting's to say"),
        ({"seeds": [1, 1]}, r"seeds=.*named twice"),
        ({"seeds": []}, r"seeds=.*empty"),
        ({"seeds": [-1]}, r"seeds\.0=-1"),
        ({"options": {"federation": {"name": "flower_simulation"}}}, r"a sweep are local"),
        ({"rows": "a\0b"}, "a name cannot have a zero byte in it"),
        ({"keep": "all"}, r"keep='all': .*'runs' or 'rows'"),
    ],
)
def test_a_mistake_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        read_sweep({**MINE, **change})
    assert "\n" not in str(caught.value)


# What is left, and how long it takes


@pytest.mark.parametrize(
    ("settings", "methods", "seeds", "said"),
    [
        (100, 100, 2, "100 settings × 100 methods × 2 seeds are 20,000 runs"),
        (1, 1, 300_000, "1 settings × 1 methods × 300,000 seeds are 300,000 runs"),
    ],
)
def test_a_sweep_of_too_many_runs_is_refused_before_any_is_resolved(
    settings: int, methods: int, seeds: int, said: str
) -> None:
    # Names that would be refused as soon as the first of them is looked at.
    tree = {
        "settings": [f"no-preset-{number}" for number in range(settings)],
        "methods": [f"no-method-{number}" for number in range(methods)],
        "seeds": list(range(seeds)),
    }
    with pytest.raises(UserError) as caught:
        read_sweep(tree)
    assert str(caught.value) == f"sweep: {said}; one sweep has 10,000 at most"


def finished(sweep: Any, job: Any, seconds: float) -> Row:
    options = job.experiment.model_dump(mode="json", exclude_none=True)
    summary = {"seconds": seconds, "rounds": job.experiment.rounds}
    return Row("called otherwise", "too", job.seed, options, "", "", summary)


def test_what_is_finished_is_not_left_whatever_it_was_called() -> None:
    sweep = read_sweep(MINE)
    plan = plan_of(sweep, [finished(sweep, sweep.jobs[0], 10.0)])
    assert [job.title for job in plan.left] == [job.title for job in sweep.jobs[1:]]
    ((job, row),) = plan.done.items()
    assert (row.setting, row.method, row.seed) == (job.setting, job.method, job.seed)


def test_the_same_run_under_two_names_is_left_once() -> None:
    twice = {"a": {"name": "feddiv", "variant": "paper"}, "b": "feddiv-paper"}
    sweep = read_sweep({**MINE, "methods": twice, "seeds": [1]})
    assert [job.method for job in plan_of(sweep, []).left] == ["a"]
    assert len(plan_of(sweep, [finished(sweep, sweep.jobs[0], 1.0)]).done) == 2


def test_time_is_judged_by_the_runs_that_are_most_alike() -> None:
    sweep = read_sweep({**MINE, "seeds": [0, 1, 2]})
    assert plan_of(sweep, []).seconds(2) == (0.0, 6)
    fedavg, paper = sweep.jobs[:2]
    rows = [finished(sweep, fedavg, 10.0), finished(sweep, paper, 30.0)]
    assert plan_of(sweep, rows).seconds(1) == (80.0, 0)  # two of each are left
    assert plan_of(sweep, rows).seconds(2) == (
        50.0,
        0,
    )  # 10, 10, 30 on one, 30 on the other
    # Another kind of noise takes alike long, half of the rounds half as long.
    harder = read_sweep({**MINE, "options": {"noise": {"rho": 0.2}}, "seeds": [0]})
    assert plan_of(harder, rows).seconds(1) == (40.0, 0)
    shorter = read_sweep({**MINE, "options": {"rounds": 11, "warmup": {"iterations": 1}}})
    assert plan_of(shorter, rows).seconds(1)[0] == pytest.approx(2 * 40 / 3)
    other = read_sweep({**MINE, "methods": ["rofl"], "seeds": [0]})
    assert plan_of(other, rows).seconds(1) == (20.0, 0), "the median of other methods"
    assert plan_of(read_sweep({**MINE, "settings": ["newsgroups"]}), rows).seconds(1)[1] == 4
