import copy

import pytest
import torch
from torch import nn

from feddiv.core.errors import UserError
from feddiv.core.randomness import Streams
from feddiv.nets import NETS, ModelOptions
from feddiv.nets.build import build_net

COLOUR = (3, 32, 32)
DIGIT = (1, 8, 8)

TRAINED = [name for name in NETS if name != "predictions"]  # which is no net


def parameters(net: nn.Module) -> int:
    return sum(weight.numel() for weight in net.parameters())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "input_shape", "classes", "expected"),
    [
        ("mlp", (64,), 10, (64 + 1) * 128 + (128 + 1) * 128 + (128 + 1) * 10),
        ("mlp", DIGIT, 10, (64 + 1) * 128 + (128 + 1) * 128 + (128 + 1) * 10),
        ("linear", (64,), 10, (64 + 1) * 10),
        ("linear", DIGIT, 10, (64 + 1) * 10),
        ("cnn", COLOUR, 10, 94_762),
        ("cnn", DIGIT, 10, (9 + 2) * 32 + (9 * 32 + 2) * 64 + (64 + 1) * 10),
        ("resnet18", COLOUR, 10, 11_173_962),
        ("resnet34", COLOUR, 100, 21_328_292),
        ("resnet50", COLOUR, 1000, 25_557_032),
    ],
)
def test_parameter_counts(name: str, input_shape: tuple[int, ...], classes: int, expected: int):
    assert parameters(build_net(ModelOptions(name=name), input_shape, classes)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("input_shape", [(1, 8, 8), (3, 20, 33)])
def test_logits_are_the_head_of_the_features(name: str, input_shape: tuple[int, ...]):
    net = build_net(ModelOptions(name=name), input_shape, classes=7).eval()
    x = torch.randn(4, *input_shape)
    features = net.features(x)
    assert net(x).shape == (4, 7)
    assert isinstance(net.head, nn.Linear)
    assert features.shape == (4, net.head.in_features)
    assert torch.equal(net.head(features), net(x))


@pytest.mark.parametrize(("side", "blocks"), [(8, 2), (15, 2), (16, 3), (32, 3)])
def test_cnn_has_two_blocks_for_small_images(side: int, blocks: int):
    net = build_net(ModelOptions(), (3, side, 40), classes=10)
    assert sum(isinstance(module, nn.Conv2d) for module in net.modules()) == blocks


def test_nets_come_in_training_mode_and_learn_in_every_parameter():
    net = build_net(ModelOptions(name="resnet18"), DIGIT, classes=3)
    assert all(module.training for module in net.modules())
    net(torch.randn(4, *DIGIT)).square().sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in net.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cnn", "resnet18", "resnet50"])
def test_4d_weights_are_channels_last_and_stay_so(name: str):
    net = build_net(ModelOptions(name=name), COLOUR, classes=10)
    again = copy.deepcopy(net)
    again.load_state_dict({key: value.contiguous() for key, value in net.state_dict().items()})
    for each in (net, again):
        weights = [weight for weight in each.parameters() if weight.dim() == 4]
        assert weights
        assert all(w.is_contiguous(memory_format=torch.channels_last) for w in weights)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_initial_weights_are_a_function_of_the_seed(name: str):
    def first(seed: int) -> dict[str, torch.Tensor]:
        with Streams(seed).seeded("net"):
            return build_net(ModelOptions(name=name), DIGIT, classes=10).state_dict()

    one, same, other = first(1), first(1), first(2)
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not torch.equal(one["fc.weight"], other["fc.weight"])


def test_resnet18_parameters_are_named_as_in_torchvision_with_a_cifar_stem():
    state = build_net(ModelOptions(name="resnet18"), COLOUR, classes=10).state_dict()
    assert state["conv1.weight"].shape == (64, 3, 3, 3)
    assert state["layer1.0.conv1.weight"].shape == (64, 64, 3, 3)
    assert state["layer2.0.downsample.0.weight"].shape == (128, 64, 1, 1)
    assert state["layer2.0.downsample.1.running_mean"].shape == (128,)
    assert "layer1.0.downsample.0.weight" not in state
    assert state["fc.weight"].shape == (10, 512)
    assert len(state) == 122


def test_cifar_resnet_keeps_the_resolution_in_its_stem():
    net = build_net(ModelOptions(name="resnet18"), COLOUR, classes=10).eval()
    seen: dict[str, tuple[int, ...]] = {}
    for name in ("layer1", "layer4"):
        net.get_submodule(name).register_forward_hook(
            lambda _, inputs, output, name=name: seen.update({name: tuple(output.shape)})
        )
    net(torch.zeros(1, *COLOUR))
    assert seen == {"layer1": (1, 64, 32, 32), "layer4": (1, 512, 4, 4)}


def test_resnet50_state_dict_is_that_of_torchvision():
    state = build_net(ModelOptions(name="resnet50"), (3, 64, 64), classes=1000).state_dict()
    known = {
        "conv1.weight": (64, 3, 7, 7),
        "bn1.running_var": (64,),
        "bn1.num_batches_tracked": (),
        "layer1.0.conv1.weight": (64, 64, 1, 1),
        "layer1.0.conv3.weight": (256, 64, 1, 1),
        "layer1.0.downsample.0.weight": (256, 64, 1, 1),
        "layer1.0.downsample.1.bias": (256,),
        "layer2.0.conv2.weight": (128, 128, 3, 3),
        "layer3.5.bn3.weight": (1024,),
        "layer4.0.downsample.0.weight": (2048, 1024, 1, 1),
        "layer4.2.conv2.weight": (512, 512, 3, 3),
        "fc.weight": (1000, 2048),
        "fc.bias": (1000,),
    }
    assert {key: tuple(state[key].shape) for key in known} == known
    assert len(state) == 320
    assert list(state)[:2] == ["conv1.weight", "bn1.weight"]
    assert list(state)[-2:] == ["fc.weight", "fc.bias"]


def test_resnet50_strides_in_the_3x3():
    net = build_net(ModelOptions(name="resnet50"), (3, 64, 64), classes=2)
    assert net.get_submodule("layer2.0.conv1").stride == (1, 1)
    assert net.get_submodule("layer2.0.conv2").stride == (2, 2)


@pytest.mark.parametrize("name", ["cnn", "resnet18", "resnet34", "resnet50"])
def test_image_nets_refuse_feature_vectors(name: str):
    with pytest.raises(UserError) as error:
        build_net(ModelOptions(name=name), (384,), classes=10)
    assert str(error.value) == (
        f"model.name='{name}' needs images (channels, height, width), but a sample here has "
        "shape (384,); 'mlp' takes any shape"
    )


def test_cnn_refuses_images_that_pooling_would_empty():
    with pytest.raises(UserError, match="at least 4x4 pixels, but they are 3x9 here"):
        build_net(ModelOptions(), (1, 3, 9), classes=10)


def test_unknown_name_lists_what_there_is():
    with pytest.raises(UserError) as error:
        build_net(ModelOptions(name="lenet"), COLOUR, classes=10)
    assert str(error.value) == (
        "model.name='lenet' is no net; there are mlp, linear, cnn, resnet18, resnet34, "
        "resnet50, predictions, and import paths 'package.module:factory'"
    )


def test_summaries_are_one_line():
    assert all(net.summary and "\n" not in net.summary for net in NETS.values())
