"""The configuration matrix: hundreds of programs that pass `check`, each of which must compile.

    python -m tests.dsl.matrix [--jobs N] [--family gemm_f16,..] [--sample N] [--backend cute|cpp] --json OUT

configurations  what there is: stage x dtype x tile x cluster x schedule x scheduler x epilogue, drawn by a fixed seed
build           each by its back ends: CuTe DSL to machine code; nvcc to a cubin and g++ to the code that launches it,
                linked and loaded (several stages a unit, because CUTLASS's headers cost 15 s a unit and a kernel 5 s)
"""
