"""Devices by name. Imports a device's module only on request."""

from __future__ import annotations

from engine.devices import SessionRefused
from engine.evaluate.evaluator import Evaluator
from engine.executors.memory import machine_bytes
from engine.executors.room import Room
from engine.words import count
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
        from engine.devices.cuda import least_used

        return least_used().evaluator(local_user=local_user)
    if name == "modelled":
        from engine.devices.modelled import Modelled

        try:
            load(hardware or "h200")
        except HardwareError as e:
            raise SessionRefused("no_device", str(e)) from None
        return Evaluator(Modelled(hardware or "h200", local_user=local_user))
    raise SessionRefused("no_device", f"there is no device {wanted!r}; write cuda, or modelled:h200 for a prediction")


def several(wanted: str, gpus: str, at_once: int = 1, *, local_user: bool = False) -> list[Evaluator]:
    """`at_once` evaluators for each of several GPUs: `all` of this machine, or a number of them. Of a predicted device,
    as many as asked. Those of one GPU share its lane, its memory and its workers, as sessions of the app do. Raises
    SessionRefused."""
    first = get(wanted, local_user=local_user)
    many = [first]
    if first.kind == "measured":
        from engine.devices.cuda import machines

        others = [machine for machine in machines() if machine is not first.machine]
        if gpus != "all" and not (gpus.isdigit() and 1 <= int(gpus) <= 1 + len(others)):
            reason = f"this machine has {count(1 + len(others), 'GPU')} of its kind"
            raise SessionRefused("no_device", f"{reason}; write --gpus all, or a number up to that, not {gpus}")
        chosen = others if gpus == "all" else others[: int(gpus) - 1]
        many += [machine.evaluator(local_user=local_user) for machine in chosen]
    elif not gpus.isdigit() or not int(gpus):
        raise SessionRefused("no_device", f"a predicted device has no GPUs to count; write --gpus 1, not {gpus}")
    else:
        many += [get(wanted, local_user=local_user) for _ in range(int(gpus) - 1)]
    many += [_another(one, local_user) for _ in range(at_once - 1) for one in many]
    if first.kind == "predicted" and len(many) > 1:
        room = Room(machine_bytes() // 2)  # of this machine: no GPU holds their data
        for one in many:
            one.machine.room = room
    return many


def _another(evaluator: Evaluator, local_user: bool) -> Evaluator:
    """One more evaluator on the same machine."""
    if evaluator.kind == "measured":
        return evaluator.machine.evaluator(local_user=local_user)
    return get(evaluator.name, local_user=local_user)
