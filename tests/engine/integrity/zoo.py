"""The zoo: files of tricks and of honest kernels, each with what is expected of it in its first lines.

# module: NAME      the module of modules/ that it claims to be
# class: f32        the precision class that it declares (default f32)
# expect: CODE ...  a cheat: findings that must be among those reported; CODE|CODE: at least one of them, for a trick
#                   that fresh inputs show in one way or another
# verdict: WORDS    an honest file: the verdict, where it is not `clean`; `unverified`: what it does cannot be told
# family: WORDS     a row of the table in engine/evaluate/integrity/README.md
# unseen: WORDS     a cheat that no round shows, with the reason; `verdict` is then what the rounds say of it
"""

import re
from collections.abc import Collection
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
    family: str = ""
    unseen: str = ""

    def missing(self, codes: Collection[str]) -> list[str]:
        """What is expected and not among the reported codes."""
        return sorted(expected for expected in self.expect if not set(expected.split("|")) & set(codes))

    @property
    def undecided(self) -> bool:
        """An honest file that is neither accused nor accepted."""
        return self.verdict == "unverified"

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
                    tag("family"),
                    tag("unseen"),
                )
            )
    return sorted(zoo, key=lambda a: (a.module, a.path.stem))
