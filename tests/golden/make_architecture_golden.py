#!/usr/bin/env python3
"""Writes architectures/*.json: logits of tiny models by transformers, which tests/engine/architectures_test.cpp compares
winnow with.

Weights are those of --load-format dummy (docs/models.md), made here once more from their description, so that no file
holds any. Each model runs in float32, cut to its first 1, 2 and 3 layers: where the first differing number stands tells
the layer.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
import transformers

VOCAB, LAYERS, TOKENS, POSITIONS = 64, 3, 48, (0, 20, 47)

SMALL = {"hidden_size": 192, "intermediate_size": 256, "num_attention_heads": 6, "num_key_value_heads": 3,
         "num_hidden_layers": LAYERS, "vocab_size": VOCAB, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
         "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float32"}
LLAMA = SMALL | {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}
QWEN2 = SMALL | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "rope_theta": 1000000.0,
                 "rms_norm_eps": 1e-6}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
MODELS = {
    "llama2": LLAMA | {"num_key_value_heads": 6},
    "llama3_linear": LLAMA | {"rope_scaling": {"type": "linear", "factor": 2.0}},
    "llama3_llama3": LLAMA | {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                                               "high_freq_factor": 4.0, "original_max_position_embeddings": 256}},
    "llama3_yarn": LLAMA | {"rope_scaling": YARN},
    "mistral": SMALL | {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": None,
                        "rope_theta": 1000000.0},
    "qwen2": QWEN2 | {"use_sliding_window": False},
    "qwen2_yarn": QWEN2 | {"rope_scaling": YARN | {"attention_factor": 1.25}, "tie_word_embeddings": True},
    "qwen3": SMALL | {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 96, "head_dim": 64,
                      "tie_word_embeddings": True, "rms_norm_eps": 1e-6, "use_sliding_window": False},
}

HF_NAMES = {"attn_norm.weight": "input_layernorm.weight", "ffn_norm.weight": "post_attention_layernorm.weight",
            "attn_output.weight": "self_attn.o_proj.weight", "attn_q_norm.weight": "self_attn.q_norm.weight",
            "attn_k_norm.weight": "self_attn.k_norm.weight", "ffn_gate.weight": "mlp.gate_proj.weight",
            "ffn_up.weight": "mlp.up_proj.weight", "ffn_down.weight": "mlp.down_proj.weight"}
HF_NAMES |= {f"attn_{x}.{kind}": f"self_attn.{x}_proj.{kind}" for x in "qkv" for kind in ("weight", "bias")}
GGUF_NAMES = {hf: gguf for gguf, hf in HF_NAMES.items()}


def philox(key, counters):
    """Philox4x32-10 of counters [n, 4] (Salmon et al., SC 2011)."""
    c = counters.astype(np.uint64)
    low32, k0, k1 = np.uint64(0xFFFFFFFF), key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        a, b = c[:, 0] * np.uint64(0xD2511F53), c[:, 2] * np.uint64(0xCD9E8D57)
        c = np.stack([(b >> np.uint64(32)) ^ c[:, 1] ^ np.uint64(k0), b & low32,
                      (a >> np.uint64(32)) ^ c[:, 3] ^ np.uint64(k1), a & low32], axis=1)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def dummy(name, shape):
    """A tensor by its GGUF name; shape as torch has it."""
    key = 0xCBF29CE484222325
    for byte in name.encode():
        key = (key ^ byte) * 0x100000001B3 % 2**64
    count = int(np.prod(shape))
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    counters = np.stack([np.full_like(blocks, 7), blocks & np.uint64(0xFFFFFFFF), blocks >> np.uint64(32),
                         np.zeros_like(blocks)], axis=1)
    words = philox(key, counters).reshape(-1)[:count]
    u = ((2 * (words >> np.uint64(9)).astype(np.float64) + 1) / 2**23 - 1).astype(np.float32)
    if name.endswith(".bias"):
        values = np.float32(0.1) * u
    elif len(shape) == 1:
        values = np.float32(1) + np.float32(0.1) * u
    elif name == "token_embd.weight":
        values = u
    else:
        values = np.float32(np.sqrt(3.0 / shape[1])) * u
    return torch.from_numpy(values.reshape(shape))


def gguf_name(hf):
    whole = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
             "lm_head.weight": "output.weight"}
    if hf in whole:
        return whole[hf]
    _, _, layer, rest = hf.split(".", 3)
    return f"blk.{layer}.{GGUF_NAMES[rest]}"


def logits_of(config, layers, ids):
    config = config | {"num_hidden_layers": layers}
    model_type = config["model_type"]
    settings = {k: v for k, v in config.items() if k not in ("model_type", "architectures", "torch_dtype")}
    parsed = transformers.AutoConfig.for_model(model_type, **settings)
    parsed._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(parsed, dtype=torch.float32).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(dummy(gguf_name(name), tuple(parameter.shape)))
        logits = model(torch.tensor([ids])).logits[0]
    return parsed, logits[list(POSITIONS)].numpy()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "architectures")
    out = parser.parse_args().out
    ids = [(i * i * 31 + 7 * i + 3) % VOCAB for i in range(TOKENS)]
    for name, config in MODELS.items():
        by_layers = []
        for layers in range(1, LAYERS + 1):
            parsed, logits = logits_of(config, layers, ids)
            by_layers.append([[float(f"{x:.7g}") for x in row] for row in logits])
        print(name, parsed.rope_parameters, f"largest logit {np.abs(logits).max():.3g}")
        golden = {"config": config, "ids": ids, "positions": list(POSITIONS), "logits": by_layers}
        (out / f"{name}.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
