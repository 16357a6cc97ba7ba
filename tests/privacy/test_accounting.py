"""Noise and its price, against the accountants of dp-accounting."""

import pytest

pytest.importorskip("dp_accounting")

import dp_accounting
from dp_accounting import pld, rdp

from feddiv.privacy.accounting import epsilon_spent, noise_ratio


@pytest.mark.parametrize(("epsilon", "releases"), [(8.0, 28), (8.0, 1), (1.0, 52)])
def test_the_library_accounts_the_same_epsilon(epsilon: float, releases: int) -> None:
    ratio = noise_ratio(epsilon, 1e-5, releases)
    event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(ratio), releases)
    # Our sensitivity is already how far another sample moves a total; the library's "replace one"
    # is meant for sensitivities to one sample more or less, and would count it twice.
    exact = pld.PLDAccountant().compose(event)
    assert exact.get_epsilon(1e-5) == pytest.approx(epsilon, rel=2e-3)
    assert exact.get_epsilon(1e-5) >= epsilon - 1e-6  # the library rounds up
    # Renyi's bound is looser, never tighter.
    renyi = rdp.RdpAccountant().compose(event).get_epsilon(1e-5)
    assert epsilon <= renyi < 1.3 * epsilon


def test_what_is_spent() -> None:
    ratio = noise_ratio(8.0, 1e-5, 28)
    assert epsilon_spent(ratio, 1e-5, 28) == pytest.approx(8.0)
    assert epsilon_spent(ratio, 1e-5, 0) == 0.0
    assert epsilon_spent(ratio, 1e-5, 7) < 8.0 / 2 + 0.1  # a quarter of the uploads
