"""The lessons that are shipped, and those that a teacher put into the folder UCUTLASS_LESSONS.

A shipped lesson is a folder `playground/lessons/NN-SLUG` with `lesson.md` and, for each language, `lesson.LANGUAGE.md`.
NN gives the order. A teacher's folder holds files `SLUG.md`, with translations `SLUG.LANGUAGE.md`.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from playground import conf
from playground.learn.model import Lesson, Mistake
from playground.learn.writing.reader import LANGUAGES, read

FOLDER = Path(__file__).resolve().parents[1] / "lessons"
DEFAULT = "en"
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


def library(language: str = DEFAULT) -> list[Lesson]:
    """Every lesson without a mistake, in the order that builds up, in a language where it has it, else in English."""
    return [lesson for lesson, mistakes in _all(language, _state()) if lesson is not None and not mistakes]


def lesson(slug: str, language: str = DEFAULT) -> Lesson:
    """Raises KeyError for a lesson that does not exist."""
    for found_lesson in library(language):
        if found_lesson.slug == slug:
            return found_lesson
    raise KeyError(slug)


def mistakes() -> dict[str, list[Mistake]]:
    """File -> mistakes, of the shipped lessons and of a teacher's folder, translations and names of files included."""
    rows: dict[str, list[Mistake]] = _names()
    for path, slug, source in _files():
        for language in (DEFAULT, *(one for one in LANGUAGES if one != DEFAULT)):
            file = path if language == DEFAULT else _translation(path, language)
            if file.exists() and (faults := _read(path, slug, source, language)[1]):
                rows[str(file)] = faults
    return rows


def mistaken_lines() -> list[str]:
    """The mistakes as lines for a terminal: FILE:LINE: what is wrong, and the way out."""
    return [f"{file}:{m.line}: {m.text} {m.fix}".rstrip() for file, faults in mistakes().items() for m in faults]


def _names() -> dict[str, list[Mistake]]:
    """What keeps a teacher's files from being lessons at all: {file or folder: mistakes}."""
    own = _own()
    if own is None:
        return {}
    if not own.is_dir():
        text = "UCUTLASS_LESSONS names this folder, which does not exist."
        return {str(own): [Mistake(1, text, "Make it, or name another one.")]}
    shipped = {slug for _, slug, source in _files() if source == "shipped"}
    ours = {f"{slug}.{language}" for _, slug, _ in _files() for language in LANGUAGES}
    rows = {}
    for path in sorted(own.iterdir()):
        stem, fix = path.name.removesuffix(path.suffix), "Rename it, for example to lesson-1.md."
        if path.suffix.lower() not in (".md", ".markdown") or stem in ours:
            continue
        if stem in shipped:
            rows[str(path)] = [Mistake(1, f"A shipped lesson is called {stem}, and stands in place of this one.", fix)]
        elif path.suffix != ".md" or not _SLUG.fullmatch(stem):
            text = "This file is no lesson: its name has other signs than a-z, 0-9 and - before .md."
            rows[str(path)] = [Mistake(1, text, fix)]
    return rows


def _own() -> Path | None:
    name = conf.get("UCUTLASS_LESSONS")
    return Path(name).expanduser() if name else None


def _files() -> list[tuple[Path, str, str]]:
    """(file, slug, source) of each lesson, in order."""
    rows = [(p / "lesson.md", p.name.partition("-")[2], "shipped") for p in sorted(FOLDER.iterdir()) if p.is_dir()]
    rows = [row for row in rows if row[0].exists()]
    own = _own()
    if own and own.is_dir():
        present = {slug for _, slug, _ in rows}
        for path in sorted(own.glob("*.md")):
            if _SLUG.fullmatch(path.stem) and path.stem not in present:
                rows.append((path, path.stem, "own"))
    return rows


def _translation(path: Path, language: str) -> Path:
    return path.with_name(f"{path.stem}.{language}.md")


def _state() -> tuple[tuple[str, int], ...]:
    """Names and times of all files: a change of one makes the library read them again."""
    files = [
        f for path, _, _ in _files() for f in (path, *(_translation(path, one) for one in LANGUAGES)) if f.exists()
    ]
    return tuple((str(f), f.stat().st_mtime_ns) for f in files)


@functools.lru_cache(maxsize=2 * len(LANGUAGES))
def _all(language: str, _: tuple[tuple[str, int], ...]) -> list[tuple[Lesson | None, list[Mistake]]]:
    return [_read(path, slug, source, language) for path, slug, source in _files()]


def _read(path: Path, slug: str, source: str, language: str) -> tuple[Lesson | None, list[Mistake]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
        other = _translation(path, language)
        translation = other.read_text(encoding="utf-8-sig") if language != DEFAULT and other.exists() else ""
    except (OSError, UnicodeDecodeError) as e:
        return None, [Mistake(1, f"The file cannot be read: {getattr(e, 'strerror', None) or 'it is not UTF-8'}.")]
    return read(text, slug, source=source, translation=translation, language=language)
