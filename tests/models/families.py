"""Small models of many families for `bench/node_counts.py`: transformers models by configuration, and timm and
torchvision models by name if installed. Entries are as in the zoo, with seeded noise."""

import importlib.util

import torch

from accuracy.further_models import MODELS as FURTHER
from models.architectures import ARCHITECTURES, translation_inputs
from models.zoo import MODELS as ZOO
from models.zoo import TOKENS, Entry, image, tokens

TEXT = {"vocab_size": 300, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
        "use_cache": False}
DECODER = {**TEXT, "num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SEQ2SEQ = {"vocab_size": 600, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
           "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "use_cache": False,
           "pad_token_id": 1}
VISION = {"image_size": 32, "patch_size": 8, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
          "intermediate_size": 48}
SOUND = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
         "conv_dim": [16, 16], "conv_stride": [5, 4], "conv_kernel": [10, 8], "num_feat_extract_layers": 2,
         "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "vocab_size": 30}


def transformers_model(model: str, config: str, settings: dict):
    def build():
        import transformers

        torch.manual_seed(0)
        return getattr(transformers, model)(getattr(transformers, config)(**settings))

    return build


def sound(batch: int, length: int) -> dict:
    return {"input_values": torch.randn(batch, length, generator=torch.Generator().manual_seed(batch))}


def timm_model(name: str, **settings):
    def build():
        import timm

        return timm.create_model(name, pretrained=False, **settings)

    return build


def torchvision_model(name: str, **settings):
    def build():
        import torchvision

        return torchvision.models.get_model(name, weights=None, **settings)

    return build


SENTENCE, SENTENCES = {"batch": 2, "seq": 16}, {"batch": 3, "seq": 11}
PICTURE, PICTURES = {"batch": 2}, {"batch": 3}
BATCH = {"pixel_values": {0: "batch"}}


def sentence(name: str, model: str, config: str, settings: dict) -> Entry:
    return Entry(name, transformers_model(model, config, settings), tokens(300), SENTENCE, SENTENCES, TOKENS)


def picture(name: str, model: str, config: str, settings: dict, side: int = 32) -> Entry:
    return Entry(name, transformers_model(model, config, settings), image("pixel_values", side), PICTURE, PICTURES,
                 BATCH)


def translation(name: str, model: str, config: str) -> Entry:
    return Entry(name, transformers_model(model, config, SEQ2SEQ), translation_inputs, SENTENCE, SENTENCES,
                 {**TOKENS, "decoder_input_ids": {0: "batch"}})


TRANSFORMERS = [
    sentence("roberta", "RobertaForSequenceClassification", "RobertaConfig", TEXT),
    sentence("electra", "ElectraModel", "ElectraConfig", TEXT),
    sentence("deberta", "DebertaV2Model", "DebertaV2Config",
             {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": 16}),
    sentence("mpnet", "MPNetModel", "MPNetConfig", TEXT),
    sentence("mistral", "MistralForCausalLM", "MistralConfig", {**DECODER, "sliding_window": 8}),
    sentence("qwen2", "Qwen2ForCausalLM", "Qwen2Config", DECODER),
    sentence("gemma2", "Gemma2ForCausalLM", "Gemma2Config", {**DECODER, "head_dim": 8}),
    sentence("phi", "PhiForCausalLM", "PhiConfig", DECODER),
    sentence("falcon", "FalconForCausalLM", "FalconConfig", DECODER),
    sentence("bloom", "BloomForCausalLM", "BloomConfig",
             {"vocab_size": 300, "hidden_size": 32, "n_layer": 2, "n_head": 4, "use_cache": False}),
    sentence("opt", "OPTForCausalLM", "OPTConfig",
             {**TEXT, "ffn_dim": 48, "word_embed_proj_dim": 32, "max_position_embeddings": 64}),
    sentence("gpt_neo", "GPTNeoForCausalLM", "GPTNeoConfig",
             {"vocab_size": 300, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "use_cache": False,
              "attention_types": [[["global", "local"], 1]], "window_size": 4}),
    sentence("gptj", "GPTJForCausalLM", "GPTJConfig",
             {"vocab_size": 300, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "use_cache": False}),
    translation("bart", "BartForConditionalGeneration", "BartConfig"),
    translation("marian", "MarianMTModel", "MarianConfig"),
    Entry("wav2vec2", transformers_model("Wav2Vec2ForCTC", "Wav2Vec2Config", SOUND), sound, {"batch": 2, "length": 800},
          {"batch": 3, "length": 1000}, {"input_values": {0: "batch", 1: "length"}}),
    picture("beit", "BeitForImageClassification", "BeitConfig", {**VISION, "use_relative_position_bias": True}),
    picture("dinov2", "Dinov2Model", "Dinov2Config", VISION),
    picture("yolos", "YolosForObjectDetection", "YolosConfig",
            {**VISION, "image_size": [32, 32], "num_detection_tokens": 5}),
    picture("dpt", "DPTForDepthEstimation", "DPTConfig",
            {**VISION, "num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3], "neck_hidden_sizes": [8, 8, 8, 8],
             "fusion_hidden_size": 8, "reassemble_factors": [4, 2, 1, 0.5], "is_hybrid": False}),
    picture("efficientnet", "EfficientNetForImageClassification", "EfficientNetConfig",
            {"width_coefficient": 0.25, "depth_coefficient": 0.5, "image_size": 64, "hidden_dim": 320}, 64),
    picture("levit", "LevitForImageClassification", "LevitConfig",
            {"image_size": 64, "hidden_sizes": [16, 32, 48], "num_attention_heads": [2, 2, 2], "depths": [1, 1, 1],
             "key_dim": [8, 8, 8]}, 64),
    picture("pvt", "PvtForImageClassification", "PvtConfig",
            {"image_size": 64, "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32],
             "num_attention_heads": [1, 2, 2, 4]}, 64),
]

X = {"x": {0: "batch"}}
NAMED = [
    *((name, "timm", timm_model(name, **settings), side) for name, side, settings in [
        ("efficientformerv2_s0", 224, {}), ("maxvit_rmlp_pico_rw_256", 256, {}), ("coatnet_pico_rw_224", 224, {}),
        ("mobilevitv2_050", 64, {}), ("xcit_nano_12_p8_224", 64, {}), ("edgenext_xx_small", 64, {}),
        ("poolformer_s12", 64, {}), ("hrnet_w18_small", 64, {}), ("res2net50_14w_8s", 64, {}),
        ("swinv2_cr_tiny_ns_224", 224, {}), ("cait_xxs24_224", 224, {}), ("eva02_tiny_patch14_224", 224, {}),
        ("botnet26t_256", 256, {}), ("halonet26t", 256, {}), ("twins_pcpvt_small", 224, {}),
    ]),
    *((name, "torchvision", torchvision_model(name, **settings), side) for name, side, settings in [
        ("shufflenet_v2_x0_5", 64, {}), ("googlenet", 64, {"init_weights": False}), ("densenet121", 64, {}),
        ("swin_v2_t", 64, {}), ("maxvit_t", 224, {}), ("lraspp_mobilenet_v3_large", 64, {"weights_backbone": None}),
        ("deeplabv3_mobilenet_v3_large", 64, {"weights_backbone": None}),
    ]),
]

FAMILIES = {
    **ZOO, **FURTHER, **ARCHITECTURES, **{entry.name: entry for entry in TRANSFORMERS},
    **{name: Entry(name, build, image("x", side), PICTURE, PICTURES, X, is_new=True)
       for name, package, build, side in NAMED if importlib.util.find_spec(package)},
}
