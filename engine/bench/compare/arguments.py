"""The arguments of `python -m engine compare`. Imports nothing heavy, so that `--help` is quick."""

from __future__ import annotations

import argparse
from collections.abc import Callable

ORDERS = ("each", "in_turn", "sol")
# Products, two convolutions, norms, an MLP; the last three are held-out modules, the one before them is outside of the
# suite. Chosen because their checks on a CPU take seconds; large element-wise problems are left out for that alone.
DEFAULT_PROBLEMS = (
    "matmul_transposed_b", "matmul_irregular", "linear_mish_mish", "linear_groupnorm_hardtanh", "linear_silu_f16",
    "mlp_gelu", "conv2d_relu_bias", "conv2d_relu_hardswish", "layernorm_linear_gelu_linear", "rmsnorm_geglu",
    "low_rank_linear", "token_mixer",
)  # fmt: skip


def add(parser: argparse.ArgumentParser) -> None:
    kinds = numbers(float), numbers(int)
    parser.add_argument(
        "problems", nargs="*", metavar="PROBLEM", help=f"modules of engine/problems (default: {len(DEFAULT_PROBLEMS)})"
    )
    parser.add_argument(
        "--strategies", required=True, metavar="A,B", help="with options as in mucutlass:iterations=2:analyze=false"
    )
    parser.add_argument("--skills", type=kinds[0], default=(0.7,), metavar="X,..", help="of the rehearsal")
    parser.add_argument("--seeds", type=kinds[1], default=(0,), metavar="N,..", help="of the sessions and draws")
    parser.add_argument("--device", default="modelled:h200", help="cuda, or modelled:h200 for predictions (default)")
    parser.add_argument("--class", dest="cls", default="f16", metavar="CLASS", help="precision class (default f16)")
    parser.add_argument("--trials", type=int, default=12, metavar="N", help="evaluations of a session (default 12)")
    parser.add_argument("--tokens", type=int, default=400_000, metavar="N", help="model tokens of a session")
    parser.add_argument("--eps", type=float, default=0.0, metavar="X", help="stop within this share of the limit")
    parser.add_argument("--window", type=int, default=0, metavar="N", help="stop after N without a better one; 0: off")
    parser.add_argument("--order", choices=ORDERS, default="each", help="each: own budgets; else one over all problems")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="processes, on a modelled device")
    parser.add_argument(
        "--proposals", metavar="FILE", help="the committed distribution of the rehearsal, which is checked and named"
    )
    parser.add_argument(
        "--json", metavar="OUT", help="results; continues an earlier file; OUT.md and figures beside it"
    )


def numbers(kind: type) -> Callable[[str], tuple]:
    def read(text: str) -> tuple:
        try:
            return tuple(kind(part) for part in text.split(",") if part)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers such as 0.5,1") from None

    return read
