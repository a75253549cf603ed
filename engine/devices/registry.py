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


def several(wanted: str, at_once: int = 1, *, local_user: bool = False, share: int = 1) -> list[Evaluator]:
    """`at_once` evaluators on one GPU, which share its lane, its memory and its workers, as sessions of the app do.
    `share`: processes that predict on this machine at a time. Raises SessionRefused."""
    first = get(wanted, local_user=local_user)
    if first.kind == "measured":
        first.machine.warm(many=at_once)
    many = [first, *(_another(first, local_user) for _ in range(at_once - 1))]
    if first.kind == "predicted" and len(many) * share > 1:
        room = Room(machine_bytes() // (2 * share))  # of this machine: no GPU holds their data
        for one in many:
            one.machine.room = room
    return many


def gpu_names(wanted: str, gpus: str) -> list[str]:
    """Several GPUs, as CUDA_VISIBLE_DEVICES names them: `all` of this machine that are like the first one, or a number
    of them. Of a predicted device, as many unnamed ones as asked. Raises SessionRefused."""
    if not wanted.startswith("modelled"):
        from engine.devices import gpus as here

        first, *more = here.visible()
        alike = [first, *(name for name in more if here.alike(name, first))]
        if gpus != "all" and not (gpus.isdigit() and 1 <= int(gpus) <= len(alike)):
            reason = f"this machine has {count(len(alike), 'GPU')} of its kind"
            raise SessionRefused("no_device", f"{reason}; write --gpus all, or a number up to that, not {gpus}")
        return alike if gpus == "all" else alike[: int(gpus)]
    if not gpus.isdigit() or not int(gpus):
        raise SessionRefused("no_device", f"a predicted device has no GPUs to count; write --gpus 1, not {gpus}")
    return [""] * int(gpus)


def _another(evaluator: Evaluator, local_user: bool) -> Evaluator:
    """One more evaluator on the same machine."""
    if evaluator.kind == "measured":
        return evaluator.machine.evaluator(local_user=local_user)
    return get(evaluator.name, local_user=local_user)
