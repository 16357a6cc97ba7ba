"""What a site has agreed to: one config and one number in a run, and so much epsilon in all."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

pytest.importorskip("flwr")

from feddiv.config.experiment import Experiment
from feddiv.config.reading import load_experiment
from feddiv.core.errors import UserError
from feddiv.flower.site_ledger import SiteLedger
from feddiv.flower.site_privacy import Needed, SitePrivacy
from feddiv.methods.contract import Message
from feddiv.privacy.options import PrivacyOptions

RUN, OTHER = "ab" * 8, "cd" * 8


def experiment(**settings: object) -> Experiment:
    pairs = {"privacy__filter": "dp", "privacy__uploads": 2, "against": [], **settings}
    given = {k.replace("__", "."): v for k, v in pairs.items() if v is not None}
    return load_experiment("quickstart", given)


def visit(folder: Path, asked: Experiment, version: str = "000001-0000-0") -> SitePrivacy:
    return SitePrivacy(asked, folder, folder / "runs" / RUN / "0", RUN, version)


def test_a_run_has_one_config_and_the_site_one_number(tmp_path: Path) -> None:
    ledger = SiteLedger(tmp_path)
    ledger.agree(RUN, 0, experiment())
    ledger.agree(RUN, 0, experiment())
    ledger.agree(RUN, 0, experiment(rounds=60))  # a run may go on
    # The same noise at two scales, another count of uploads, more that is sent, no filter at all.
    for other in (
        {"privacy__epsilon": 4.0},
        {"privacy__uploads": 3},
        {"train__lr": 0.011},
        {"privacy__filter": "none", "privacy__uploads": None},
    ):
        with pytest.raises(UserError, match="as one client and under one config"):
            ledger.agree(RUN, 0, experiment(**other))
    # As another client it would have another budget.
    with pytest.raises(UserError, match="as one client and under one config"):
        ledger.agree(RUN, 1, experiment())
    ledger.agree(OTHER, 1, experiment(privacy__epsilon=4.0))


def test_masks_and_noise_are_of_one_config(tmp_path: Path) -> None:
    first, again, longer = (
        getattr(visit(tmp_path, asked).own(), "secret", None)
        for asked in (experiment(), experiment(), experiment(rounds=60))
    )
    assert first == again != longer
    # With fresh noise the same total is one more upload; two are allowed.
    grants = [
        visit(tmp_path, asked)._grant("histogram", b"mark", 0)
        for asked in (experiment(), experiment(), experiment(rounds=60), experiment(rounds=70))
    ]
    assert grants == [True, True, True, False]


def test_the_config_is_part_of_the_promise(tmp_path: Path) -> None:
    settings = {"privacy__filter": "sum_only", "privacy__uploads": None}
    message = Message("train")
    visit(tmp_path, experiment(**settings)).promise(message, "")
    visit(tmp_path, experiment(**settings)).promise(message, "")
    # Another threshold of the method under the same masks: their difference would tell labels.
    with pytest.raises(UserError, match="once more, and otherwise"):
        visit(tmp_path, experiment(**settings, rounds=60)).promise(message, "")


def test_a_torn_line_is_no_upload_and_spoils_no_other(tmp_path: Path) -> None:
    site = visit(tmp_path, experiment())
    assert site._grant("histogram", b"a", 0)
    journal = site.kept / "noisy-uploads"
    journal.write_bytes(journal.read_bytes() + b"histo")
    assert site._grant("histogram", b"b", 0)
    assert not site._grant("histogram", b"c", 0)
    assert site._grant("histogram", b"b", 0)  # it can be read again


def test_all_runs_of_a_site_have_one_ceiling(tmp_path: Path) -> None:
    ledger, eight = SiteLedger(tmp_path), PrivacyOptions(filter="dp", epsilon=8.0)
    for _ in range(2):  # a run is counted once
        ledger.spend(RUN, eight, 20.0)
    ledger.spend(OTHER, eight, 20.0)
    invented = "ef" * 8
    with pytest.raises(UserError, match=r"have spent 16 of 20 in all \(largest-total-epsilon"):
        ledger.spend(invented, eight, 20.0)
    ledger.check_spent(RUN, eight, 20.0)  # those that began may end
    ledger.spend(invented, PrivacyOptions(filter="dp", epsilon=4.0), 20.0)
    ledger.spend("01" * 8, PrivacyOptions(filter="sum_only"), 20.0)
    (tmp_path / "epsilon-of-runs").open("a").write("77 1")  # torn: of 16
    with pytest.raises(UserError, match="have spent 20 of 25"):
        ledger.spend("77", PrivacyOptions(filter="dp", epsilon=16.0), 25.0)


def test_delta_below_one_sample(tmp_path: Path) -> None:
    Needed.check_delta(PrivacyOptions(filter="dp", delta=1e-3), 999)
    Needed.check_delta(PrivacyOptions(filter="sum_only", delta=1e-3), 10_000)
    with pytest.raises(UserError, match=r"privacy.delta=0.001: this site has 1000 samples"):
        Needed.check_delta(PrivacyOptions(filter="dp", delta=1e-3), 1000)


def test_visits_at_the_same_time_do_not_share_the_last_upload(tmp_path: Path) -> None:
    asked, at_once = experiment(privacy__uploads=1), 8
    for attempt in range(20):
        site, ready = visit(tmp_path / str(attempt), asked), Barrier(at_once)

        def ask(mark: int, site: SitePrivacy = site, ready: Barrier = ready) -> bool:
            ready.wait()
            return site._grant("histogram", bytes([mark]), 0)

        with ThreadPoolExecutor(at_once) as pool:
            assert sum(pool.map(ask, range(at_once))) == 1
