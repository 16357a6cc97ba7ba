"""Nets by name, or by the import path of somebody's own factory."""

from feddiv.nets.net_options import NETS, ModelOptions

__all__ = ["NETS", "ModelOptions"]
