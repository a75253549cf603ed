"""Devices by name. Imports a device's module only when it is asked for."""

from __future__ import annotations

from engine.devices import SessionRefused
from engine.evaluate.evaluator import Evaluator
from sol.hardware import HardwareError, load


def get(wanted: Evaluator | str, *, local_user: bool = False) -> Evaluator:
    """The evaluator on `cuda`, `modelled:<hardware>` or `auto` (cuda where there is a GPU and the toolchain); one that
    is given is given back.

    Raises SessionRefused with what there is. `local_user`: the pasted text is the person's own, who may accept a
    weaker sandbox. Asking for `cuda` begins to warm it, so ask in the main thread, and early.
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
