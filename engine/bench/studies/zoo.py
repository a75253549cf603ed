"""Models as their packages make them, with random weights and an example input: one of each family that makes its parts
in a way of its own. Nobody tuned on them.

A model of transformers has two layers of its package's own sizes, where the configuration says how many there are, and
a vocabulary of 4,000: tables of words change no kernel. Four experts stand for a mixture.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

VISION = {
    "torchvision": """
alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_v2_s googlenet inception_v3 maxvit_t mnasnet1_0
mobilenet_v2 mobilenet_v3_small regnet_y_400mf regnet_x_400mf resnet18 resnext50_32x4d shufflenet_v2_x1_0 squeezenet1_1
swin_t swin_v2_t vgg11_bn vit_b_32 wide_resnet50_2 segmentation.fcn_resnet50
segmentation.deeplabv3_mobilenet_v3_large segmentation.lraspp_mobilenet_v3_large video.r3d_18 video.r2plus1d_18
video.mc3_18 video.s3d video.swin3d_t video.mvit_v2_s optical_flow.raft_small
    """,
    "timm": """
bat_resnext26ts beit_base_patch16_224 botnet26t_256 cait_xxs24_224 caformer_s18 coat_tiny coatnet_0_rw_224
convformer_s18 convit_tiny convmixer_768_32 convnextv2_atto convnext_atto crossvit_tiny_240 cs3darknet_m cspresnet50
cspdarknet53 csatv2 darknet53 davit_tiny deit_tiny_patch16_224 densenet121 dla34 dm_nfnet_f0 dpn68 eca_nfnet_l0
edgenext_xx_small efficientformer_l1 efficientformerv2_s0 efficientnet_b0 efficientvit_b0 efficientvit_m0
ese_vovnet19b_dw eva02_tiny_patch14_224 fastvit_t8 fasternet_t0 focalnet_tiny_srf gcresnet33ts gcvit_xxtiny gernet_s
ghostnet_100 ghostnetv2_100 halonet26t hardcorenas_a hgnet_tiny hgnetv2_b0 hiera_tiny_224 hrnet_w18_small
inception_next_tiny inception_resnet_v2 inception_v4 lambda_resnet26t lcnet_050 legacy_senet154 levit_128s
lamhalobotnet50ts_256 mambaout_femto maxvit_rmlp_pico_rw_256 maxxvit_rmlp_nano_rw_256 mixer_s32_224 gmlp_s16_224
resmlp_12_224 mixnet_s mnasnet_100 mobilenetv1_100 mobilenetv4_conv_small mobilenetv5_base mobileone_s0 mobilevit_xxs
mobilevitv2_050 mvitv2_tiny naflexvit_base_patch16_gap nasnetalarge nest_tiny nextvit_small pit_ti_224 pnasnet5large
poolformer_s12 pvt_v2_b0 rdnet_tiny regnety_002 regnetz_b16 repghostnet_050 repvgg_a0 repvit_m0_9 res2net50_14w_8s
resnest14d resnet50 resnetv2_50 rexnet_100 samvit_base_patch16_224 sebotnet33ts_256 selecsls42b semnasnet_050
sequencer2d_s shvit_s1 skresnet18 spnasnet_100 starnet_s1 swiftformer_xs swin_tiny_patch4_window7_224
swinv2_tiny_window8_256 swinv2_cr_tiny_224 tf_efficientnet_b0 tinynet_a tiny_vit_5m_224 tnt_s_patch16_224 tresnet_m
twins_svt_small twins_pcpvt_small visformer_tiny vit_tiny_patch16_224 vit_relpos_small_patch16_224
vit_base_patch16_siglip_224 vitamin_small_224 volo_d1_224 vovnet39a xception41 xcit_nano_12_p16_224
    """,
}
TRANSFORMERS = {  # what they read -> the kinds of configuration
    "ids": """
        bert distilbert roberta albert electra deberta deberta-v2 mpnet xlnet longformer big_bird fnet nystromformer
        convbert mobilebert squeezebert ibert roformer rembert canine modernbert gpt2 gpt_neo gpt_neox gptj opt bloom
        codegen llama mistral mixtral qwen2 qwen3 qwen2_moe qwen3_moe gemma gemma2 gemma3_text phi phi3 phimoe falcon
        mpt stablelm starcoder2 olmo olmo2 olmoe granite granitemoe cohere cohere2 deepseek_v3 glm glm4 gpt_oss
        llama4_text persimmon recurrent_gemma rwkv mamba mamba2 falcon_mamba zamba zamba2 smollm3 exaone4 ernie4_5
        hunyuan_v1_dense lfm2 arcee minimax qwen3_next seed_oss apertus clip_text_model
    """,
    "ids, then ids": """t5 mt5 umt5 bart mbart pegasus m2m_100 marian blenderbot led prophetnet switch_transformers""",
    "an image": """vit deit beit swin swinv2 convnext convnextv2 cvt dinov2 dinov3_vit dpt focalnet glpn levit
        mobilenet_v2 mobilevit poolformer pvt regnet resnet segformer siglip_vision_model clip_vision_model vit_mae
        yolos hiera ijepa efficientnet bit data2vec-vision vitdet""",
    "a video": "videomae timesformer vivit",
    "sound": "wav2vec2 hubert wavlm unispeech sew data2vec-audio",
    "a wave": "encodec dac mimi",
    "a spectrum": "audio-spectrogram-transformer",
    "a spectrum, then ids": "whisper speech_to_text",
    "a series": "patchtst patchtsmixer",
}
KINDS = {kind: reads for reads, kinds in TRANSFORMERS.items() for kind in kinds.split()}
NAMES = (
    *(f"{package}/{name}" for package, names in VISION.items() for name in names.split()),
    *(f"transformers/{kind}" for kind in KINDS),
)
_COUNTS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers", "decoder_layers",
           "num_decoder_layers", "num_encoder_layers")  # fmt: skip
# Where two layers would leave out a kind of layer, or take more memory than a small machine has.
_LAYERS = {"zamba": 6, "zamba2": 7, "recurrent_gemma": 3, "mixtral": 1, "phimoe": 1, "minimax": 1, "llama4_text": 1}
_WORDS = 4000
_EXPERTS = 4


class NotMade(Exception):
    """Its package cannot make the model here, or the model does not take the example input."""


def make(name: str) -> tuple[nn.Module, Any]:
    """(the model in evaluation mode, its example input). Raises NotMade; ImportError without the package."""
    torch.manual_seed(0)
    package, _, own = name.partition("/")
    how = {"torchvision": _torchvision, "timm": _timm, "transformers": _transformers}[package]
    try:
        module, inputs = how(own)
        module.eval().requires_grad_(False)
        with torch.no_grad():
            module(**inputs) if isinstance(inputs, dict) else module(*inputs)
    except ImportError:
        raise
    except Exception as e:
        raise NotMade(f"{type(e).__name__}: {e}"[:300]) from e
    del module
    return how(own)[0].eval().requires_grad_(False), inputs  # anew: the first call may have changed it


def _torchvision(name: str) -> tuple[nn.Module, Any]:
    import torchvision

    group, _, own = name.rpartition(".")
    room = getattr(torchvision.models, group) if group else torchvision.models
    more = {"weights_backbone": None} if group == "segmentation" else {}
    if own in ("googlenet", "inception_v3"):
        more = {"init_weights": False}
    module = getattr(room, own)(weights=None, **more)
    if group == "video":
        size = 112 if own in ("r3d_18", "r2plus1d_18", "mc3_18") else 224
        return module, (torch.randn(1, 3, 16, size, size),)
    if group == "optical_flow":
        return module, (torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128))
    return module, (torch.randn(2, 3, *[299 if own == "inception_v3" else 224] * 2),)


def _timm(name: str) -> tuple[nn.Module, Any]:
    import timm

    module = timm.create_model(name, pretrained=False)
    return module, (torch.randn(2, *module.pretrained_cfg.get("input_size", (3, 224, 224))),)


def _transformers(kind: str) -> tuple[nn.Module, Any]:
    from transformers import AutoConfig, AutoModel

    config, reads = AutoConfig.for_model(kind), KINDS[kind]
    for name in _COUNTS if reads != "an image" or not hasattr(config, "hidden_sizes") else ():
        if isinstance(getattr(config, name, None), int):
            setattr(config, name, _LAYERS.get(kind, 2))
    types = vars(config).get("layer_types")
    if types:
        config.layer_types = types[: config.num_hidden_layers]
    for name in ("num_experts", "num_local_experts", "n_routed_experts"):
        if isinstance(getattr(config, name, None), int):
            setattr(config, name, min(getattr(config, name), _EXPERTS))
            config.num_experts_per_tok = min(getattr(config, "num_experts_per_tok", 1), _EXPERTS // 2)
    if isinstance(getattr(config, "vocab_size", None), int):
        config.vocab_size = min(config.vocab_size, _WORDS)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        if isinstance(getattr(config, name, None), int) and getattr(config, name) >= _WORDS:
            setattr(config, name, 1)
    config.use_cache = False
    return AutoModel.from_config(config), _inputs(kind, reads, config)


def _inputs(kind: str, reads: str, config: Any) -> Any:
    ids = torch.randint(3, 1000, (2, 77 if kind == "clip_text_model" else 128))
    size = getattr(config, "image_size", 224)
    size = size if isinstance(size, int) else size[0]
    short = ids[:, :16].contiguous()
    spectrum = torch.randn(2, 80, 3000) if kind == "whisper" else torch.randn(2, 200, 80)
    return {
        "ids": lambda: (ids,),
        "ids, then ids": lambda: {"input_ids": ids, "decoder_input_ids": ids[:, :64].contiguous()},
        "an image": lambda: (torch.randn(2, getattr(config, "num_channels", 3), size, size),),
        "a video": lambda: (torch.randn(1, getattr(config, "num_frames", 16), 3, size, size),),
        "sound": lambda: (torch.randn(2, 16_000),),
        "a wave": lambda: (torch.randn(2, 1, 19_200),),
        "a spectrum": lambda: (torch.randn(2, 1024, 128),),
        "a spectrum, then ids": lambda: {"input_features": spectrum, "decoder_input_ids": short},
        "a series": lambda: (torch.randn(2, config.context_length, config.num_input_channels),),
    }[reads]()
