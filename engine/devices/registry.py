"""Devices by name. Imports a device's module only on request."""

from __future__ import annotations

from engine.devices import SessionRefused
from engine.evaluate.evaluator import Evaluator
from sol.hardware import HardwareError, load


def get(wanted: Evaluator | str, *, local_user: bool = False) -> Evaluator:
    """The evaluator on `cuda`, `modelled:<hardware>` or `auto` (cuda if there is a GPU and the toolchain). An evaluator
    is returned as it is.

    Raises SessionRefused with the existing devices. `local_user`: the pasted text belongs to the local user, who may
    accept a weaker sandbox. A request for `cuda` starts to warm it, so call this in the main thread, and early.
    """
    if not isinstance(wanted, str):
        return wanted
    name, _, hardware = wanted.partition(":")
    if name == "auto":
        try:
            return get("cuda", local_user=local_user)
        except SessionRefused:
            name, hardware = "modelled", ""
    if name == "cuda":
        from engine.devices.cuda import machine

        device = machine()
        device.local_user = local_user
        device.warm()
        return Evaluator(device)
    if name == "modelled":
        from engine.devices.modelled import Modelled

        try:
            load(hardware or "h200")
        except HardwareError as e:
            raise SessionRefused("no_device", str(e)) from None
        return Evaluator(Modelled(hardware or "h200", local_user=local_user))
    raise SessionRefused("no_device", f"there is no device {wanted!r}; write cuda, or modelled:h200 for a prediction")
