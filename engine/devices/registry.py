"""Devices by name. Imports a device's module only when it is asked for."""

from __future__ import annotations

from engine.devices import Device, SessionRefused
from sol.hardware import HardwareError, load


def get(wanted: Device | str, *, local_user: bool = False) -> Device:
    """`cuda`, `modelled:<hardware>` or a device itself. Raises SessionRefused with what there is.

    `local_user`: the pasted text is the person's own, who may accept a weaker sandbox.
    """
    if not isinstance(wanted, str):
        return wanted
    name, _, hardware = wanted.partition(":")
    if name == "cuda":
        from engine.devices.cuda import Cuda

        return Cuda()
    if name == "modelled":
        from engine.devices.modelled import Modelled

        try:
            load(hardware or "h200")
        except HardwareError as e:
            raise SessionRefused("no_device", str(e)) from None
        return Modelled(hardware or "h200", local_user=local_user)
    raise SessionRefused("no_device", f"there is no device {wanted!r}; write cuda, or modelled:h200 for a prediction")
