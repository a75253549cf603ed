"""The names under which libraries export the work of a module: BLAS, LAPACK, vector mathematics, transforms.

By pattern, over all levels and types, because a list of single functions misses the next one. Only functions that a
loaded library of numbers exports are compared with it.
"""

from __future__ import annotations

import re


def _any(text: str) -> str:
    return "|".join(sorted(text.split(), key=len, reverse=True))


_LEVEL_1 = _any(
    """rotg rotmg rotm rot swap scal copy axpy axpyi axpby dot doti dotu dotui dotc dotci dsdot nrm2 asum amax amin max
    min sum gthr gthrz sctr"""
)
_LEVEL_2 = _any(
    """gemv gem2v gem2vu gem2vc gbmv hemv hbmv hpmv symv sbmv spmv trmv tbmv tpmv trsv tbsv tpsv ger geru gerc her hpr
    her2 hpr2 syr spr syr2 spr2"""
)
_LEVEL_3 = _any(
    """gemm gemmt gemmtr gemm3m gemm3mt symm hemm syrk herk syr2k her2k trmm trsm omatcopy omatcopy2 imatcopy omatadd
    geadd dgmm gels gesv potrf getrf getri"""
)
_PARTS = r"(?:_(?:sub|batch|batched|strided|direct|jit|compute|pack|alloc|free|get|size|get_size|create))*"
# s, d, c, z; two letters where a result has another type (scnrm2, dznrm2, sdsdot), i for the place of a maximum
_TYPES = r"(?:i?[sdcz]|sc|dz|cs|zd|ds|sds|[hb]|sh|sb|bs|bg)"
_WIDE = r"(?:gemm_?(?:[su]8[su]8[su]32|s16s16s32|bf16bf16f32|f16f16f32|e[45]m[23]\w*f32)|hgemm|shgemm|sbgemm|bgemm)"
_BLAS = rf"(?:{_TYPES}(?:{_LEVEL_1}|{_LEVEL_2}|{_LEVEL_3})|{_WIDE}){_PARTS}"
# The two letters of the matrix, and the operation: sgetrf, dsyevd, cunmqr
_LAPACK = (
    r"[sdcz]s?(?:bd|di|gb|ge|gg|gt|hb|he|hg|hp|hs|la|op|or|pb|pf|po|pp|ps|pt|sb|sf|sp|st|sy|tb|tf|tg|tp|tr|tz|un|up)"
    r"[a-z][a-z0-9]{1,6}"
)
_VECTOR = _any(
    """abs acos acosh acospi add arg asin asinh asinpi atan atan2 atan2pi atanh atanpi cbrt cdfnorm cdfnorminv ceil cis
    conj copysign cos cosd cosh cospi div erf erfc erfcinv erfcx erfinv exp exp10 exp2 expint1 expm1 fdim floor fmax
    fmin fmod frac hypot i0 i1 inv invcbrt invsqrt j0 j1 jn lgamma linearfrac ln log10 log1p log2 logb maxmag minmag
    modf mul mulbyconj muli nearbyint nextafter packi packm packv pow pow2o3 pow3o2 powr powx remainder rint round sin
    sincos sincospi sind sinh sinpi sqr sqrt sub tan tand tanh tanpi tgamma trunc unpacki unpackm unpackv y0 y1 yn"""
)
_OTHERS = r"""
    cblas_\w+ | scipy_cblas_\w+ | scipy_(?!openblas)\w+ | catlas_\w+ | LAPACKE?_\w+
    | mkl_(?:blas|lapack|vml|trans)_\w+ | mkl_(?:sparse_)?[sdcz]_[a-z]\w+ | mkl_(?:jit|cblas)_\w+
    | MKL_SPARSE_[SDCZ]_\w+ | vsl[sdcz]\w+ | DftiCompute\w+ | ipp[a-z]{1,3}[A-Z]\w+
    | Sleef_\w+ | _ZGV\w+ | __svml_\w+ | amd_v[rs][sd]\d_\w+ | vv[a-z0-9]+f? | vDSP_\w+
    | fftw[fl]?_execute\w* | pffft_\w+ | nnp_\w+ | xnn_(?:run|setup|create)\w+
    | dnnl_sgemm | dnnl_gemm_\w+ | dnnl_primitive_execute | dnnl_\w*matmul\w* | aoti_torch_(?:cpu|cuda)_\w+
"""
_ENDS = r"(?:_|_64|_64_|64_)?"
WORK = re.compile(rf"(?i:(?:mkl_)?(?:{_BLAS}|{_LAPACK}){_ENDS}|vm?[sdcz](?:{_VECTOR})i?{_ENDS})|(?x:{_OTHERS})")
