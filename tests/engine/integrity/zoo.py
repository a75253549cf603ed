"""The zoo: files of tricks and of honest kernels, each with what is expected of it in its first lines.

# module: NAME      the module of modules/ that it claims to be
# class: f32        the precision class that it declares (default f32)
# expect: CODE ...  a cheat: findings that must be among those reported
# verdict: WORDS    an honest file: the verdict, where it is not `clean`
"""

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SUFFIXES = (".py", ".cu")


@dataclass(frozen=True)
class Animal:
    path: Path
    module: str
    cls: str
    expect: frozenset[str]
    verdict: str

    @property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def kind(self) -> str:
        return "cuda" if self.path.suffix == ".cu" else "python"


def module(name: str) -> str:
    return (HERE / "modules" / f"{name}.py").read_text()


def animals(folder: str) -> list[Animal]:
    """Every file of a folder (cheats, honest, cuda_cheats, cuda_honest), those of one module side by side."""
    zoo = []
    for path in sorted((HERE / folder).glob("*.*")):
        if path.suffix in SUFFIXES:
            text = path.read_text()

            def tag(what: str, default: str = "", text: str = text) -> str:
                match = re.search(rf"^(?:#|//) {what}: (.+)$", text, re.MULTILINE)
                return match[1].strip() if match else default

            zoo.append(
                Animal(
                    path,
                    tag("module"),
                    tag("class", "f32"),
                    frozenset(tag("expect").split()),
                    tag("verdict", "clean"),
                )
            )
    return sorted(zoo, key=lambda a: (a.module, a.path.stem))
