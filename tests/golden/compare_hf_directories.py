#!/usr/bin/env python3
"""Saves tiny random models with transformers (save_pretrained: one file or shards, tied and untied heads, three types of
numbers), loads each as winnow does (dump_logits on the float reference), and compares all logits with transformers'.
Needs torch and transformers; not part of a test run.

    cmake --build build --target dump_logits
    python3 tests/golden/compare_hf_directories.py --dump build/bin/dump_logits
"""

import argparse
import os
import struct
import subprocess
import tempfile

import numpy as np
import torch
import transformers

HEADER = struct.Struct("<8s4I")
TOLERANCE = 1e-4  # of a logit, in float32; they are a few units large
SIZES = dict(vocab_size=320, hidden_size=128, intermediate_size=192, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=512)
KINDS = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM, {}),
    "llama-linear": (transformers.LlamaConfig, transformers.LlamaForCausalLM,
                     dict(rope_scaling={"type": "linear", "factor": 2.0})),
    "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM, dict(sliding_window=None)),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM, dict(use_sliding_window=False)),
}
if hasattr(transformers, "Qwen3Config"):
    KINDS["qwen3"] = (transformers.Qwen3Config, transformers.Qwen3ForCausalLM, dict(head_dim=32))


def make_model(kind, tied, dtype):
    config_class, model_class, more = KINDS[kind]
    torch.manual_seed(1)
    model = model_class(config_class(**SIZES, **more, tie_word_embeddings=tied))
    for name, parameter in model.named_parameters():
        # transformers starts norms at 1, biases at 0 and the rest near 0, where mistakes would not show.
        torch.nn.init.normal_(parameter, 1.0 if "norm" in name else 0.0, 0.2 if parameter.dim() == 1 else 0.1)
        parameter.data = parameter.data.to(dtype).float()  # what the file will hold
    return model.eval()


def dumped(dump, folder, ids, vocab):
    ids_path, out_path = os.path.join(folder, "ids.bin"), os.path.join(folder, "out.bin")
    with open(ids_path, "wb") as file:
        file.write(HEADER.pack(b"WNIDSEQ1", *ids.shape, vocab, 0) + ids.astype("<i4").tobytes())
    subprocess.run([dump, os.path.join(folder, "model"), ids_path, out_path, "reference-float", "f32"], check=True)
    data = open(out_path, "rb").read()
    return np.frombuffer(data, "<f4", offset=HEADER.size).reshape(*ids.shape, vocab)


def main():
    parser = argparse.ArgumentParser(description="Compares logits of Hugging Face directories with transformers.")
    parser.add_argument("--dump", required=True, help="the dump_logits program")
    args = parser.parse_args()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    print("| model | head | files | numbers | largest difference of a logit | largest logit |\n|---|---|---|---|---|---|")
    ids = np.random.default_rng(1).integers(0, SIZES["vocab_size"], (2, 40))
    failed = False
    for kind in KINDS:
        for tied, shard_size, dtype in ((True, "10GB", torch.float32), (False, "100KB", torch.float32),
                                        (True, "100KB", torch.bfloat16), (False, "10GB", torch.float16)):
            model = make_model(kind, tied, dtype)
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "model")
                with torch.no_grad():
                    expected = model(torch.tensor(ids)).logits.numpy()
                model.to(dtype).save_pretrained(path, max_shard_size=shard_size, safe_serialization=True)
                files = len([name for name in os.listdir(path) if name.endswith(".safetensors")])
                found = dumped(args.dump, folder, ids, SIZES["vocab_size"])
            difference = float(np.abs(found - expected).max())
            failed |= not difference <= TOLERANCE
            print(f"| {kind} | {'tied' if tied else 'its own'} | {files} | {str(dtype)[6:]} | {difference:.1e} "
                  f"| {float(np.abs(expected).max()):.1f} |")
    if failed:
        raise SystemExit(f"a difference is above {TOLERANCE}")


if __name__ == "__main__":
    main()
