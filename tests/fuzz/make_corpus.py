#!/usr/bin/env python3
"""Writes the corpus of binary files from which the fuzz targets begin: corpus/gguf, corpus/safetensors and
corpus/sentencepiece. Standard library only; the same bytes every time.

make_corpus.py [FOLDER]      default: corpus beside this file

The corpora of texts (JSON, templates) are written by hand and stand as they are."""

import json
import os
import struct
import sys

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64 = 4, 5, 6, 7, 8, 9, 10
F32, F16, Q4_0, Q8_0 = 0, 1, 2, 8


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def key(name, kind, payload):
    return text(name) + struct.pack("<I", kind) + payload


def uint32(name, value):
    return key(name, UINT32, struct.pack("<I", value))


def float32(name, value):
    return key(name, FLOAT32, struct.pack("<f", value))


def string(name, value):
    return key(name, STRING, text(value))


def boolean(name, value):
    return key(name, BOOL, struct.pack("<B", value))


def array(name, kind, items):
    return key(name, ARRAY, struct.pack("<IQ", kind, len(items)) + b"".join(items))


def strings(name, values):
    return array(name, STRING, [text(value) for value in values])


def gguf(keys, tensors=(), version=3, num_tensors=None, num_keys=None, alignment=32, tail=b""):
    """tensors: (name, shape with columns first, type, bytes)."""
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors) if num_tensors is None else num_tensors,
                                   len(keys) if num_keys is None else num_keys) + b"".join(keys)
    data = b""
    for name, shape, kind, content in tensors:
        header += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        header += struct.pack("<IQ", kind, len(data))
        data += content + b"\0" * (-len(content) % alignment)
    if tensors:
        header += b"\0" * (-len(header) % alignment)
    return header + data + tail


def quantised(columns, rows):
    """Q4_0: 18 bytes for 32 weights. The scale 1.0 as float16, then nibbles."""
    return (b"\x00\x3c" + b"\x89\xa7" * 8) * (columns // 32 * rows)


def tokenizer():
    tokens = list("helowrd1") + ["\u0120", "he", "ll", "hell", "hello", "\u0120w", "<|im_start|>", "<|im_end|>"]
    kinds = [1] * 14 + [3, 3]
    return tokens, [
        string("tokenizer.ggml.model", "gpt2"), string("tokenizer.ggml.pre", "smollm"),
        strings("tokenizer.ggml.tokens", tokens),
        array("tokenizer.ggml.token_type", INT32, [struct.pack("<i", kind) for kind in kinds]),
        strings("tokenizer.ggml.merges", ["h e", "l l", "he ll", "hell o", "\u0120 w"]),
        uint32("tokenizer.ggml.bos_token_id", 14), uint32("tokenizer.ggml.eos_token_id", 15),
        boolean("tokenizer.ggml.add_bos_token", False),
        string("tokenizer.chat_template", "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}")]


def model(architecture="llama"):
    tokens, tokenizer_keys = tokenizer()
    a = architecture + "."
    keys = [string("general.architecture", architecture), string("general.name", "tiny"),
            uint32(a + "block_count", 1), uint32(a + "context_length", 64), uint32(a + "embedding_length", 32),
            uint32(a + "feed_forward_length", 64), uint32(a + "attention.head_count", 1),
            uint32(a + "attention.head_count_kv", 1), float32(a + "attention.layer_norm_rms_epsilon", 1e-5),
            float32(a + "rope.freq_base", 10000)] + tokenizer_keys
    norm = struct.pack("<32f", *[1.0] * 32)
    block = "blk.0."
    tensors = [("token_embd.weight", [32, len(tokens)], Q4_0, quantised(32, len(tokens))),
               ("output_norm.weight", [32], F32, norm),
               (block + "attn_norm.weight", [32], F32, norm), (block + "ffn_norm.weight", [32], F32, norm)]
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        tensors.append((block + name + ".weight", [32, 32], Q4_0, quantised(32, 32)))
    for name in ("ffn_gate", "ffn_up"):
        tensors.append((block + name + ".weight", [32, 64], Q4_0, quantised(32, 64)))
    tensors.append((block + "ffn_down.weight", [64, 32], Q4_0, quantised(64, 32)))
    if architecture == "qwen2":
        for name in ("attn_q", "attn_k", "attn_v"):
            tensors.append((block + name + ".bias", [32], F32, norm))
    if architecture == "qwen3":
        for name in ("attn_q_norm", "attn_k_norm"):
            tensors.append((block + name + ".weight", [32], F32, norm))
    return gguf(keys, tensors)


def sentencepiece_gguf():
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + ["\u2581", "h", "e", "he", "\u2581he"]
    kinds = [2, 3, 3] + [6] * 256 + [1] * 5
    return gguf([string("general.architecture", "llama"), string("tokenizer.ggml.model", "llama"),
                 strings("tokenizer.ggml.tokens", pieces),
                 array("tokenizer.ggml.token_type", INT32, [struct.pack("<i", kind) for kind in kinds]),
                 array("tokenizer.ggml.scores", FLOAT32, [struct.pack("<f", -i) for i in range(len(pieces))]),
                 uint32("tokenizer.ggml.bos_token_id", 1), uint32("tokenizer.ggml.eos_token_id", 2)])


def gguf_corpus():
    huge = (1 << 42) + 1
    every_kind = [key("k.u8", 0, b"\x07"), key("k.i8", 1, b"\xff"), key("k.u16", 2, b"\1\2"), key("k.i16", 3, b"\xff\xff"),
                  uint32("k.u32", 7), key("k.i32", INT32, b"\xff" * 4), float32("k.f32", 0.5), boolean("k.bool", True),
                  string("k.text", "caf\u00e9"), strings("k.texts", ["a", "", "b"]),
                  array("k.floats", FLOAT32, [struct.pack("<f", 1)]), key("k.u64", UINT64, b"\xff" * 8),
                  key("k.i64", 11, b"\xff" * 8), key("k.f64", 12, struct.pack("<d", 1e300))]
    return {
        "llama": model(), "qwen2": model("qwen2"), "qwen3": model("qwen3"),
        "sentencepiece": sentencepiece_gguf(),
        "every_kind": gguf(every_kind, [("t", [3], F16, b"\1\2\3\4\5\6"), ("u", [32, 1], Q8_0, b"\1" * 34)]),
        "version_2_no_tensors": gguf([uint32("a", 1)], version=2),
        # Field case 74.
        "text_of_1_gib": gguf([key("a", STRING, struct.pack("<Q", 1 << 30))], tail=b"x" * 100),
        "array_of_2_to_the_30": gguf([key("a", ARRAY, struct.pack("<IQ", STRING, 1 << 30))], tail=b"\0" * 100),
        "alignment_of_2_to_the_30": gguf([uint32("general.alignment", 1 << 30)], [("t", [8], F32, b"\0" * 32)]),
        "arrays_inside_each_other": gguf([key("a", ARRAY, struct.pack("<IQ", ARRAY, 1) * 8)]),
        # Field case 71.
        "dimensions_of_2_to_the_42": gguf([], [("t", [huge, huge], F32, b"\0" * 32)]),
        "counts_of_2_to_the_63": gguf([], num_tensors=1 << 63, num_keys=1 << 63),
        # Field case 73.
        "byte_tokens_that_are_none": gguf([
            string("general.architecture", "llama"), string("tokenizer.ggml.model", "llama"),
            strings("tokenizer.ggml.tokens", ["<0x-1>", "<0xZZ>", "<0x0a>", "<0x00>"]),
            array("tokenizer.ggml.token_type", INT32, [struct.pack("<i", 6)] * 4),
            array("tokenizer.ggml.scores", FLOAT32, [struct.pack("<f", 0)] * 4)]),
        "magic_only": b"GGUF",
    }


def safetensors(header, data=b"", length=None):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_corpus():
    one = {"a": entry("F32", [2], 0, 8)}
    twice = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'
    return {
        "metadata_and_types": safetensors(
            {"__metadata__": {"format": "pt", "\u00e9": ""}, "model.norm.weight": entry("F32", [2], 0, 8),
             "b": entry("BF16", [2, 1], 8, 12), "scalar": entry("BOOL", [], 12, 13), "none": entry("I64", [0, 3], 13, 13)},
            bytes(range(13))),
        "empty": safetensors({}),
        "padded": safetensors(json.dumps(one).encode() + b"    ", b"\0" * 8),
        # Field case 78.
        "length_0": safetensors(b"", length=0), "length_7": safetensors(one, b"\0" * 8, length=7),
        "length_of_the_file": safetensors(one, b"\0" * 8, length=len(json.dumps(one)) + 16),
        "length_2_to_the_63": safetensors(one, b"\0" * 8, length=1 << 63),
        "length_all_ones": safetensors(one, b"\0" * 8, length=(1 << 64) - 1), "seven_bytes": b"\0" * 7,
        # Field case 80.
        "name_twice": safetensors(twice, b"\0"), "metadata_of_numbers": safetensors({"__metadata__": {"a": 1}}),
        "nested": safetensors(b'{"a":' * 60 + b"1" + b"}" * 60),
        "shape_overflows": safetensors({"a": entry("F64", [1 << 31, 1 << 31, 1 << 31], 0, 8)}, b"\0" * 8),
        "hole": safetensors({"a": entry("U8", [1], 1, 2)}, b"\0\0"),
        "overlap": safetensors({"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 1, 3)}, b"\0\0\0"),
    }


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """Of a protocol buffer: bytes, a float or a number."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def sentencepiece(model_type, byte_fallback=True):
    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
    if byte_fallback:
        pieces += [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]
    pieces += [(piece, -1.0 - i, 1) for i, piece in enumerate(["\u2581", "h", "e", "he", "\u2581he", "\u00e9"])]
    out = b"".join(field(1, field(1, piece.encode()) + field(2, score) + field(3, kind)) for piece, score, kind in pieces)
    trainer = field(3, model_type) + field(35, int(byte_fallback)) + field(40, 0) + field(41, 1) + field(42, 2)
    normalizer = field(1, b"identity") + field(3, 1) + field(4, 0) + field(5, 1)
    return out + field(2, trainer) + field(3, normalizer)


def sentencepiece_corpus():
    return {
        "bpe": sentencepiece(2), "unigram": sentencepiece(1), "without_bytes": sentencepiece(2, byte_fallback=False),
        "length_past_the_end": field(1, b"")[:1] + varint(1 << 40) + b"x" * 50,
        "varint_without_end": b"\x0a" + b"\xff" * 40,
    }


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
    for name, files in (("gguf", gguf_corpus()), ("safetensors", safetensors_corpus()),
                        ("sentencepiece", sentencepiece_corpus())):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        for file, content in files.items():
            with open(os.path.join(folder, name, file), "wb") as out:
                out.write(content)


if __name__ == "__main__":
    main()
