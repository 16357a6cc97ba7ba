import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from feddiv.core.errors import UserError
from feddiv.nets import ModelOptions
from feddiv.nets.build import build_net
from feddiv.nets.foreign import ForeignNet
from feddiv.nets.net import Net

SHAPE = (3, 8, 8)

SOURCE = '''
import torch
from torch import nn


class Vgg(nn.Module):
    """`features` is a stack of layers here, and the last Linear is not registered last."""

    def __init__(self, classes):
        super().__init__()
        self.classifier = nn.Linear(5, classes)
        self.features = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Dropout())
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer("hidden", torch.ones(1), persistent=False)
        self.gain = nn.Parameter(torch.ones(1))
        self.never_run = nn.Linear(5, classes)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)) * self.scale * self.gain)


class TwoParts(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Flatten()
        self.head = nn.Linear(192, classes)

    def features(self, x):
        return self.body(x)

    def forward(self, x):
        return self.head(self.features(x))


class Pair(nn.Module):
    def forward(self, x):
        return x.flatten(1), x


def vgg(input_shape, classes):
    return Vgg(classes)


def two_parts(*, input_shape, classes):
    return TwoParts(classes)


def lazy(input_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(classes))


def bare_linear(input_shape, classes):
    return nn.Linear(input_shape[0], classes)


def all_conv(input_shape, classes):
    """Its one Linear, of another width than the classes, is no head."""
    return nn.Sequential(
        nn.Conv2d(3, classes, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(classes, 6), nn.Unflatten(1, (6, 1, 1)), nn.Conv2d(6, classes, 1), nn.Flatten(),
    )


def seven(input_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 7))


def maps(input_shape, classes):
    return nn.Conv2d(3, classes, 1)


def pair(input_shape, classes):
    return Pair()


def narrow(input_shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(5, classes))


def text(input_shape, classes):
    return "net"


def broken(input_shape, classes):
    raise ValueError("no weights\\nfound here")


def positional(shape, n):
    return nn.Flatten()


number = 3
'''


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., nn.Module]:
    """Builds a net of a real module on the import path."""
    (tmp_path / "some_nets.py").write_text(SOURCE)
    (tmp_path / "some_broken_module.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)

    def build(attribute: str, input_shape: tuple[int, ...] = SHAPE, classes: int = 10) -> nn.Module:
        return build_net(ModelOptions(name=f"some_nets:{attribute}"), input_shape, classes)

    return build


def test_foreign_net_gets_features_and_head(build: Callable[..., nn.Module]):
    net = build("vgg").eval()
    x = torch.randn(4, *SHAPE)
    assert isinstance(net, ForeignNet)
    assert net.head is net.net.classifier
    assert net.features(x).shape == (4, 5)
    assert torch.equal(net.head(net.features(x)), net(x))


def test_foreign_net_keeps_its_own_names(build: Callable[..., nn.Module]):
    net = build("vgg")
    assert list(net.state_dict()) == list(net.net.state_dict())
    assert "gain" in net.state_dict()
    assert "hidden" not in net.state_dict()
    assert list(dict(net.named_parameters())) == list(dict(net.net.named_parameters()))
    assert net.state_dict()["features.0.weight"].is_contiguous(memory_format=torch.channels_last)


def test_foreign_net_trains_loads_converts_and_switches_mode_as_itself(
    build: Callable[..., nn.Module],
):
    net = build("vgg")
    assert net.training
    assert net.net.training
    assert net.net.features[2].training
    net.eval()
    assert not net.training
    assert not net.net.training
    assert not net.net.features[2].training

    other = build("vgg")
    other.load_state_dict(net.state_dict())
    x = torch.randn(4, *SHAPE)
    assert torch.equal(other.eval()(x), net(x))

    net.features(x).sum().backward()
    assert net.get_parameter("gain").grad is not None
    net.double()
    assert net(x.double()).dtype == torch.float64


def test_copy_of_a_foreign_net_is_independent(build: Callable[..., nn.Module]):
    net = build("vgg").eval()
    x = torch.randn(4, *SHAPE)
    before = net(x)
    twin = copy.deepcopy(net)
    with torch.no_grad():
        twin.head.weight.zero_()
        twin.head.bias.zero_()
    assert not twin(x).any()
    assert torch.equal(twin.head(twin.features(x)), twin(x))
    assert torch.equal(net(x), before)


def test_features_leave_no_hook_behind(build: Callable[..., nn.Module]):
    net = build("vgg")
    net.features(torch.randn(2, *SHAPE))
    assert not any(module._forward_pre_hooks for module in net.net.modules())


def test_net_in_two_parts_is_left_as_it_is(build: Callable[..., nn.Module]):
    net = build("two_parts")
    assert type(net).__name__ == "TwoParts"
    assert not isinstance(net, ForeignNet | Net)


def test_lazy_layers_are_made_by_the_dry_run(build: Callable[..., nn.Module]):
    net = build("lazy")
    assert net.head.weight.shape == (10, 192)
    assert list(net.state_dict()) == ["1.weight", "1.bias"]


def test_a_bare_linear_is_its_own_head(build: Callable[..., nn.Module]):
    net = build("bare_linear", input_shape=(6,))
    x = torch.randn(3, 6)
    assert torch.equal(net.features(x), x)
    assert list(net.state_dict()) == ["weight", "bias"]


def test_net_without_a_linear_head_refuses_only_when_asked(build: Callable[..., nn.Module]):
    net = build("all_conv")
    x = torch.zeros(2, *SHAPE)
    assert net(x).shape == (2, 10)
    with pytest.raises(UserError, match=r"does not end in a torch\.nn\.Linear over"):
        _ = net.head
    with pytest.raises(UserError, match="'some_nets:all_conv' does not end"):
        net.features(x)


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ("seven", "gives 7 outputs a sample, but the data have 10 classes"),
        ("maps", "gives shape (2, 10, 8, 8) for 2 samples; wanted (2, 10): one logit for each of"),
        ("pair", "gives a tuple, not a tensor of logits for 10 classes"),
        ("narrow", "fails on samples of shape (3, 8, 8): RuntimeError: mat1 and mat2"),
        ("text", "the factory gave a str, not a torch.nn.Module"),
        (
            "broken",
            "the factory failed when called with input_shape=(3, 8, 8), classes=10: "
            "ValueError: no weights",
        ),
        ("positional", "TypeError: positional() got an unexpected keyword argument"),
        ("nothing", "'some_nets' has no 'nothing'"),
        ("Vgg.nothing", "'some_nets' has no 'Vgg.nothing'"),
        ("number", "'number' is of type int and cannot be called"),
    ],
)
def test_what_is_wrong_with_a_foreign_net_is_one_line(
    build: Callable[..., nn.Module], attribute: str, message: str
):
    with pytest.raises(UserError) as error:
        build(attribute)
    assert f"model.name='some_nets:{attribute}'" in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("build")
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module:make", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("some_nets.inner:make", "'some_nets' is not a package"),
        ("some_broken_module:make", "No module named 'a_module_that_is_not_there'"),
        ("some_nets:", "an import path reads 'package.module:factory'"),
        (":make", "an import path reads 'package.module:factory'"),
        (".some_nets:make", "an import path reads 'package.module:factory'"),
    ],
)
def test_bad_import_path_is_one_line(path: str, message: str):
    with pytest.raises(UserError) as error:
        build_net(ModelOptions(name=path), SHAPE, classes=10)
    assert str(error.value).startswith(f"model.name={path!r}")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
