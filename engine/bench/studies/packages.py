"""Twelve modules as their own packages make them, with random weights, typical shapes and the type they are used in.

    pip install torchvision timm transformers diffusers     # beside torch; nothing else of this repository needs them

`MODULES[name].make()` gives (module in evaluation mode, inputs) on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

ROWS = 2048  # of a decoder layer's sequence


@dataclass(frozen=True)
class Real:
    """`package`: where it comes from; `about`: its shapes in words; `build`: (module, inputs) in f32."""

    package: str
    about: str
    dtype: torch.dtype
    build: Callable[[], tuple[nn.Module, tuple[Any, ...]]]

    def make(self) -> tuple[nn.Module, tuple[Any, ...]]:
        """The module and its inputs in `dtype`. Raises ImportError without the package."""
        torch.manual_seed(0)
        module, inputs = self.build()
        for p in module.parameters():
            p.requires_grad_(False)
        floats = [x.to(self.dtype) if torch.is_tensor(x) and x.is_floating_point() else x for x in inputs]
        return module.to(self.dtype).eval(), tuple(floats)


class First(nn.Module):
    """The tensor of a module that returns a tuple or an object of its package. `named`: more arguments by name."""

    def __init__(self, module: nn.Module, **named: Any):
        super().__init__()
        self.module, self.named = module, named

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        result = self.module(*inputs, **self.named)
        return result if torch.is_tensor(result) else result[0]


class Rotated(nn.Module):
    """A decoder layer with the rotation of its positions, which the whole model computes once for all layers."""

    def __init__(self, layer: nn.Module, rotary: nn.Module):
        super().__init__()
        self.layer, self.rotary = layer, rotary

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        result = self.layer(x, position_embeddings=self.rotary(x, positions))
        return result if torch.is_tensor(result) else result[0]


def _image(batch: int, size: int = 224) -> tuple[torch.Tensor, ...]:
    return (torch.randn(batch, 3, size, size),)


def _vision(name: str, batch: int) -> Callable[[], tuple[nn.Module, tuple[Any, ...]]]:
    def build() -> tuple[nn.Module, tuple[Any, ...]]:
        import torchvision

        return getattr(torchvision.models, name)(weights=None), _image(batch)

    return build


def _timm(name: str, batch: int) -> Callable[[], tuple[nn.Module, tuple[Any, ...]]]:
    def build() -> tuple[nn.Module, tuple[Any, ...]]:
        import timm

        return timm.create_model(name, pretrained=False), _image(batch)

    return build


def _bert() -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import BertConfig
    from transformers.models.bert.modeling_bert import BertLayer

    return First(BertLayer(BertConfig(attn_implementation="sdpa"))), (torch.randn(32, 384, 768),)


def _llama() -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8,
        attn_implementation="sdpa",
    )  # fmt: skip
    module = Rotated(LlamaDecoderLayer(config, 0), LlamaRotaryEmbedding(config))
    return module, (torch.randn(1, ROWS, 4096), torch.arange(ROWS)[None])


def _mixtral() -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import MixtralConfig
    from transformers.models.mixtral.modeling_mixtral import MixtralDecoderLayer, MixtralRotaryEmbedding

    config = MixtralConfig(
        hidden_size=1024, intermediate_size=3584, num_attention_heads=16, num_key_value_heads=4, head_dim=64,
        num_local_experts=8, num_experts_per_tok=2, attn_implementation="sdpa", experts_implementation="grouped_mm",
    )  # fmt: skip  # its loop over experts that have tokens depends on values, which nothing can trace
    module = Rotated(MixtralDecoderLayer(config, 0), MixtralRotaryEmbedding(config))
    return module, (torch.randn(1, ROWS, 1024), torch.arange(ROWS)[None])


def _whisper() -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=768, encoder_layers=12, encoder_attention_heads=12, encoder_ffn_dim=3072, attn_implementation="sdpa"
    )
    return First(WhisperEncoder(config)), (torch.randn(4, 80, 3000),)


def _t5() -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Block

    config = T5Config(d_model=768, d_kv=64, num_heads=12, d_ff=3072, is_decoder=False, attn_implementation="eager")
    return First(T5Block(config, has_relative_attention_bias=True)), (torch.randn(8, 512, 768),)


def _unet() -> tuple[nn.Module, tuple[Any, ...]]:
    from diffusers.models.resnet import ResnetBlock2D

    block = ResnetBlock2D(in_channels=320, out_channels=640, temb_channels=1280)
    return block, (torch.randn(2, 320, 64, 64), torch.randn(2, 1280))


def _mamba() -> tuple[nn.Module, tuple[Any, ...]]:
    from transformers import Mamba2Config
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Block

    config = Mamba2Config(hidden_size=768, num_heads=24, head_dim=64, state_size=128, n_groups=1, chunk_size=256)
    return First(Mamba2Block(config, 0)), (torch.randn(2, ROWS, 768),)


MODULES: dict[str, Real] = {
    "resnet50": Real("torchvision", "ResNet-50, 32 images of 224", torch.float16, _vision("resnet50", 32)),
    "convnext_tiny": Real("torchvision", "ConvNeXt-T, 32 images of 224", torch.float16, _vision("convnext_tiny", 32)),
    "mobilenet_v3": Real(
        "torchvision", "MobileNetV3-Large, 32 images of 224", torch.float16, _vision("mobilenet_v3_large", 32)
    ),
    "vit_b": Real("timm", "ViT-B/16, 32 images of 224", torch.float16, _timm("vit_base_patch16_224", 32)),
    "efficientnet": Real("timm", "EfficientNet-B0, 32 images of 224", torch.float16, _timm("efficientnet_b0", 32)),
    "bert_layer": Real("transformers", "a BERT-base layer, 32 sequences of 384", torch.float16, _bert),
    "llama_layer": Real("transformers", "a layer of Llama 3 8B, 2,048 tokens", torch.bfloat16, _llama),
    "mixtral_layer": Real(
        "transformers", "a Mixtral layer a quarter as wide, 8 experts, 2,048 tokens", torch.bfloat16, _mixtral
    ),
    "whisper_encoder": Real("transformers", "Whisper small's encoder, 4 times 30 s", torch.float16, _whisper),
    "t5_block": Real("transformers", "a T5-base block, 8 sequences of 512", torch.bfloat16, _t5),
    "unet_block": Real("diffusers", "a residual block of Stable Diffusion, 2 times 64 x 64", torch.float16, _unet),
    "mamba2_block": Real("transformers", "a Mamba-2 block of 130M, 2 times 2,048 tokens", torch.bfloat16, _mamba),
}
