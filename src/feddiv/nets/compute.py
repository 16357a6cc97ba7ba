"""Where and how nets compute: device, precision, compilation, memory."""

from __future__ import annotations

import ctypes
import sys
from functools import wraps
from typing import Any, Literal

import torch

from feddiv.core.errors import UserError

Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["fp32", "bf16"]


def find_device(wanted: Device) -> torch.device:
    """The device of this name; `auto` takes a GPU where there is one."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if wanted == "auto":
        return torch.device(next((name for name, found in there.items() if found), "cpu"))
    if not there.get(wanted, True):
        found = ["cpu", *(name for name, present in there.items() if present)]
        raise UserError(f"device={wanted}: this machine has none; it has {', '.join(found)}")
    return torch.device(wanted)


def set_up(
    net: torch.nn.Module, device: torch.device, precision: Precision, *, compiled: bool
) -> None:
    """Move a net to its device and make it compute as wanted; outputs are float32 always."""
    net.to(device)
    if compiled:
        # Batches come in several sizes: one kernel for all of them.
        net.forward = torch.compile(net.forward, dynamic=True)
    if precision == "bf16":
        for name in ("features", "forward"):
            if hasattr(net, name):
                # Not setattr: some nets have a submodule of that name, which this must hide.
                net.__dict__[name] = _autocast(getattr(net, name), device.type)


def _autocast(function: Any, device: str) -> Any:
    """The function with matrix products and convolutions in bfloat16."""

    @wraps(function)
    def inside(inputs: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            outputs: torch.Tensor = function(inputs)
        return outputs.float()

    return inside


def keep_freed_memory() -> None:
    """Let the C library keep memory that was freed, instead of giving it back to the kernel.

    Every batch needs blocks of some megabytes for a moment. By default each goes back to the
    kernel, which clears new pages for the next batch.
    """
    if sys.platform == "linux":
        trim_threshold, mmap_threshold = -1, -3
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc has it, musl has not
        if mallopt is not None:
            mallopt(mmap_threshold, 32 << 20)
            mallopt(trim_threshold, 256 << 20)
