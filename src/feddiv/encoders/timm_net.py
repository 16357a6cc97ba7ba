"""Pretrained nets of timm, where that is installed: "timm:NAME"."""

from __future__ import annotations

from feddiv.core.errors import UserError, in_one_line
from feddiv.core.files import tensors_hash
from feddiv.core.import_path import check_allowed
from feddiv.encoders.choice import EncoderChoice
from feddiv.encoders.contract import Encoder
from feddiv.encoders.images import completed, usual_size
from feddiv.encoders.torch_module import ModuleEncoder


def make(choice: EncoderChoice, side: int | None) -> Encoder:
    """The net without its classifier, as timm makes and loads it."""
    check_allowed("data.encoder", choice.name)  # it may fetch the weights, and runs timm's code
    name = choice.name.removeprefix("timm:")
    try:
        import timm
        from timm.data import resolve_model_data_config
    except Exception as problem:  # it needs torchvision, which may not fit torch
        raise UserError(
            f"data.encoder={choice.name}: timm cannot be imported ({in_one_line(problem)}); "
            "install timm and a torchvision that fits torch"
        ) from None
    try:
        net = timm.create_model(name, pretrained=True, num_classes=0)
        wanted = resolve_model_data_config(net)
    except Exception as problem:
        raise UserError(
            f"data.encoder={choice.name}: timm does not give this net ({in_one_line(problem)})"
        ) from problem
    fixed = bool(wanted.get("fixed_input_size", False))
    full = completed(
        choice,
        sha256=tensors_hash(net.state_dict()),
        size=int(wanted["input_size"][-1]) if fixed else usual_size(side),
        mean=tuple(wanted["mean"]),
        std=tuple(wanted["std"]),
    )
    return ModuleEncoder(full, net)
