"""A CUDA text may include headers by their names; a device, an endless file or the text itself is refused at once."""

import re
import time

import pytest

from engine.evaluate.integrity.process import nvcc_unit
from engine.evaluate.integrity.texts.static_cuda import OWN_FILES, bad_include
from tests.engine.integrity import zoo

HEAD = "#include <cuda_fp16.h>\n\n"


@pytest.mark.parametrize(
    "line",
    [
        '#include "/dev/zero"',
        "#include </dev/zero>",
        '  #  include  "/dev/stdin"',
        '#include "/proc/self/environ"',
        '#include "/scratch/fifo"',
        '#include "/usr/../dev/zero"',
        '#include "../../dev/zero"',
        '#include "candidate.cu"',
        '#include_next "/dev/zero"',
        '#import "/dev/zero"',
        '#embed "/dev/urandom"',
        '%:include "/dev/zero"',
        '#/* a */include/**/"/dev/zero"',
        '#inc\\\nlude "/dev/zero"',
        '#include \\\n "/dev/zero"',
        '#if __has_include("/dev/zero")\n#endif',
        '#define F "/dev/zero"\n#include F',
        "#include __FILE__",
        'const char* a = R"x(" /* )x";\n#include "/dev/zero"\n',
        'asm(".incbin \\"/dev/zero\\"");',
        'asm(".include \\"/dev/zero\\"");',
    ],
)
def test_what_a_compiler_would_read_without_end_is_refused(line):
    number, reason = bad_include(HEAD + line)
    assert "include" in reason and HEAD.count("\n") < number <= HEAD.count("\n") + 1 + line.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        '#include <cuda_runtime.h>\n#include "cutlass/gemm/device/gemm.h"\n#include <cub/cub.cuh>',
        "#include </usr/include/stdio.h>",
        "// #include F\n/*\n#include F\n*/",
        'const char* s = "#include /dev/zero";',
        "int include = 1; // see foo.include",
        "#if __has_include(<cuda_fp8.h>)\n#endif",
        "#error include",
    ],
)
def test_headers_by_name_and_other_text_are_not(text):
    assert bad_include(HEAD + text) is None


def test_no_text_of_the_zoo_is_refused():
    texts = [*zoo.HERE.glob("cuda_*/*.cu")]
    assert len(texts) > 5 and all(bad_include(t.read_text()) is None for t in texts)


def test_it_is_refused_before_nvcc_is_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(nvcc_unit.subprocess, "run", None)
    with pytest.raises(nvcc_unit.NvccFailed, match=r"^line 3: it includes /dev/zero; ") as caught:
        nvcc_unit.nvcc_library(HEAD + '#include "/dev/zero"', "x.so", {"nvcc": "/bin/sh"}, "sm_90a")
    (error,) = nvcc_unit.errors(caught.value.log)
    assert (caught.value.line, error["line"]) == (3, 3) and not list(tmp_path.iterdir())


def test_a_compiler_that_only_its_owner_may_run_is_named_with_the_way_out(tmp_path):
    nvcc = tmp_path / "bin/nvcc"
    with pytest.raises(nvcc_unit.Bad, match="does not see"):
        nvcc_unit.nvcc_library(HEAD, "x.so", {"nvcc": str(nvcc)}, "sm_90a")
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\n")
    nvcc.chmod(0o644)
    with pytest.raises(nvcc_unit.Bad, match=re.escape(f"`chmod -R a+rX {tmp_path}`")):
        nvcc_unit.nvcc_library(HEAD, "x.so", {"nvcc": str(nvcc)}, "sm_90a")


@pytest.mark.parametrize("worst", ["#include " * 8000, "/*" * 32000, "\\\n" * 30000, "#" * 64000, " " * 64000 + "x",
                                   "/**/" * 16000, "#/**/ " * 10000, '"' * 64000, "__has_include(" * 4000])  # fmt: skip
def test_the_worst_texts_are_read_in_time(worst):
    start = time.process_time()
    bad_include(worst)
    bad_include((worst + "\n") * 2)
    assert time.process_time() - start < 2


def test_the_unit_has_the_name_that_is_refused():
    assert nvcc_unit.UNIT in OWN_FILES
