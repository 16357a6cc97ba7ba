"""Device, precision and compilation of a net."""

import shutil

import pytest
import torch

import feddiv
from feddiv.core.errors import UserError
from feddiv.nets import ModelOptions
from feddiv.nets.build import build_net
from feddiv.nets.compute import find_device, set_up

CPU = torch.device("cpu")


def logits(precision: str = "fp32", *, compiled: bool = False) -> torch.Tensor:
    torch.manual_seed(3)
    net = build_net(ModelOptions(name="cnn"), (1, 16, 16), 4)
    set_up(net, CPU, precision, compiled=compiled)  # type: ignore[arg-type]
    with torch.no_grad():
        return net.eval()(torch.linspace(-1, 1, 3 * 256).view(3, 1, 16, 16))


def test_bf16_is_near_and_gives_float32() -> None:
    exact, short = logits(), logits("bf16")
    assert short.dtype == torch.float32
    assert not torch.equal(exact, short)
    torch.testing.assert_close(exact, short, atol=0.05, rtol=0.05)


def test_bf16_trains_float32_weights() -> None:
    net = build_net(ModelOptions(name="cnn"), (1, 16, 16), 4)
    set_up(net, CPU, "bf16", compiled=False)
    net(torch.ones(4, 1, 16, 16)).sum().backward()
    assert {p.grad.dtype for p in net.parameters()} == {torch.float32}
    assert net.features(torch.ones(2, 1, 16, 16)).dtype == torch.float32


def test_bf16_with_a_net_whose_features_are_a_module() -> None:
    class Old(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.features = torch.nn.Linear(3, 4)
            self.classifier = torch.nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.classifier(self.features(x))

    net = Old()
    set_up(net, CPU, "bf16", compiled=False)
    assert net(torch.ones(2, 3)).dtype == torch.float32
    assert set(net.state_dict()) == set(Old().state_dict())


@pytest.mark.full
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_is_the_same_function() -> None:
    torch.testing.assert_close(logits(), logits(compiled=True), atol=1e-5, rtol=1e-5)


@pytest.mark.full
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_gives_the_same_bits_with_workers(tmp_path) -> None:
    settings = {"compile": True, "rounds": 2, "warmup.iterations": 0, "data.images": 60}
    settings |= {"train.epochs": 1, "clients.count": 2, "against": []}
    hashes = {
        feddiv.run("quickstart", settings, out=tmp_path / str(n), workers=n).summary["model_hash"]
        for n in (0, 2)
    }
    assert len(hashes) == 1


def test_devices() -> None:
    assert find_device("cpu") == CPU
    if not torch.cuda.is_available() and not torch.backends.mps.is_available():
        assert find_device("auto") == CPU


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_device_that_is_not_there(device: str) -> None:
    module = torch.cuda if device == "cuda" else torch.backends.mps
    if module.is_available():
        pytest.skip(f"this machine has {device}")
    with pytest.raises(UserError, match=f"device={device}: this machine has none; it has cpu"):
        find_device(device)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_run_on_a_gpu(tmp_path, device: str) -> None:
    module = torch.cuda if device == "cuda" else torch.backends.mps
    if not module.is_available():
        pytest.skip(f"no {device} here")
    settings = {"device": device, "rounds": 3, "warmup.iterations": 1, "data.images": 120}
    run = feddiv.run("quickstart", settings | {"against": []}, out=tmp_path / "run")
    assert run.summary["last_test_accuracy"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_run_gives_the_same_bits_with_workers(tmp_path, precision: str) -> None:
    settings = {"precision": precision, "rounds": 3, "warmup.iterations": 1, "data.images": 120}
    settings |= {"train.epochs": 1, "clients.count": 4, "against": []}
    hashes = {
        feddiv.run("quickstart", settings, out=tmp_path / str(n), workers=n).summary["model_hash"]
        for n in (0, 2)
    }
    assert len(hashes) == 1
