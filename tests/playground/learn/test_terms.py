"""Every term is explained where it first stands: its first occurrence in the course is in bold."""

import re

import pytest

from playground.learn import shelf
from playground.learn.writing import blocks

# Words of the field that a reader may not know: a lesson that uses one explains it, so it is one of its terms.
FIELD = """
accumulator, activation, architecture, atomic, autotuning, back end, bandwidth, barrier, bias, buffer, cache, CTA, CUDA,
CuTe DSL, decode, device memory, epilogue, FLOP, fusion, gate, GELU, GEMM, gradient, intensity, kernel, latency, launch,
layer norm, mainloop, mantissa, matrix units, occupancy, operand, peak, pipeline, prefetch, quantization, reduction,
register, register file, roofline, scheduler, shared memory, SM, softmax, split-K, stage, swizzle, tensor, Tensor Core,
thread, thread block, throughput, tile, token, traffic, Triton, vector pipes, warp, wave, workspace
""".replace("\n", " ")
SAID = ("ask", "because", "hint", "title", "caption")


def words(language: str) -> tuple[str, list[str]]:
    """(the text of the whole course in the order in which it is read, every term)."""
    pieces, terms = [], []
    for path, _, source in shelf._files():
        if source != "shipped":
            continue
        file = path if language == "en" else path.with_name(f"lesson.{language}.md")
        raw = blocks.split(file.read_text(encoding="utf-8"))
        terms += [term.strip() for term in raw.head["terms"][0].split(",")]
        for part in (part for step in raw.steps for part in step.parts):
            if part.block is None:
                pieces.append(re.sub(r"```.*?```", "", part.text, flags=re.S))
            elif part.block.name in ("question", "figure"):
                rows = blocks.fields(part.block.text, part.line)
                pieces += [v for k, v, _ in rows if k in SAID or k.split(" ")[0] in ("option", "wrong")]
    text = "\n".join(pieces)
    return re.sub(r"\{\{.*?\}\}|`[^`\n]*`", " ", text), terms


def first(term: str, text: str, language: str) -> re.Match[str] | None:
    """The first occurrence of a term: in English a whole word, also in the plural."""
    if language == "en":
        return re.search(rf"(?<![\w/-]){re.escape(term)}(?:s|es)?(?![\w/-])", text, re.I)
    return re.search(re.escape(term), text)


@pytest.mark.parametrize("language", ["en", "ko"])
def test_each_term_is_in_bold_where_it_first_stands(language):
    text, terms = words(language)
    assert len(terms) > 40 and len(set(terms)) == len(terms)
    wrong = []
    for term in terms:
        match = first(term, text, language)
        if match is None:
            wrong.append(f"{term}: never")
        elif text[max(0, match.start() - 2) : match.start()] != "**":
            wrong.append(f"{term}: ...{text[max(0, match.start() - 60) : match.end() + 20]}...")
    assert not wrong, "\n".join(wrong)


def test_each_word_of_the_field_that_a_lesson_uses_is_one_of_its_terms():
    text, terms = words("en")
    field = [word.strip() for word in FIELD.split(",")]
    assert [word for word in field if first(word, text, "en") and word not in terms] == []
