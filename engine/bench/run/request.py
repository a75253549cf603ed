"""What is asked of a bench."""

from __future__ import annotations

from dataclasses import dataclass

COMPILERS = 2  # processes that run torch.compile ahead; each may hold 24 GB of the GPU
WAVE = 4


@dataclass(frozen=True)
class Wanted:
    """`modules`: name -> its id in the set; `trials`: of each class, those of earlier calls counted, `wave` of them
    planned and built at once. `eps`, `window`: the stop rule of sol.budget, asked between waves; without a window every
    trial is made. `seconds`: no problem is begun after so long."""

    modules: dict[str, str]
    classes: tuple[str, ...] = ("tf32",)
    trials: int = 3
    device: str = "cuda"
    jobs: int = 12
    seconds: float = 1e9
    compiled: bool = False
    seed: int = 0
    compilers: int = COMPILERS
    wave: int = WAVE
    eps: float = 0.1
    window: int | None = None

    @property
    def small(self) -> bool:
        return self.device == "cpu"
