"""Writes weight_blocks.bin: random blocks of every GGUF weight format and what the `gguf` package makes of them.

    python3 make_weight_blocks_golden.py weight_blocks.bin      (needs gguf and numpy; made with gguf 1.24.2)

File: for each format {u32 gguf type, u32 bytes, u32 floats, bytes, floats}, little-endian.
"""
import struct
import sys

import gguf
import numpy as np

FORMATS = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
           "IQ4_NL", "IQ4_XS"]
# Byte offsets of the half-precision scales in a block; random bits there would mostly be absurd, and some NaN.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0]}
# Zero, minus zero, smallest and largest denormal, smallest and largest normal, then ordinary ones.
SCALES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0xFBFF, 0x1C66, 0x9F21]
SPECIAL = {"F16": SCALES + [0x7C00, 0xFC00, 0x3C00],
           "BF16": [0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0xFF7F, 0x7F80, 0xFF80]}


def random_bytes(rng, name):
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]]
    if name == "F32":
        return rng.standard_normal(64, dtype=np.float32).view(np.uint8)
    if name in SPECIAL:
        values = rng.standard_normal(64, dtype=np.float32)
        bits = values.astype(np.float16).view(np.uint16) if name == "F16" else values.view(np.uint32) >> 16
        bits = bits.astype(np.uint16)
        bits[: len(SPECIAL[name])] = SPECIAL[name]
        return bits.view(np.uint8)
    blocks = rng.integers(0, 256, (12 if elements == 32 else 4, size), dtype=np.uint8)
    for which, offset in enumerate(HALVES[name]):
        for block in range(len(blocks)):
            # Blocks of 256 are few: they take every other special scale, shifted so that the minima see others.
            pick = block + 3 * which if elements == 32 else 2 * block + which
            bits = SCALES[pick] if pick < len(SCALES) else int(rng.normal(0, 0.02, 1).astype(np.float16).view(np.uint16)[0])
            blocks[block, offset : offset + 2] = np.frombuffer(struct.pack("<H", bits), np.uint8)
    return blocks.reshape(-1)


def floats(name, data):
    if name == "F32":
        return data.view(np.float32)
    if name == "F16":
        return data.view(np.float16).astype(np.float32)
    return gguf.quants.dequantize(data.reshape(1, -1), gguf.GGMLQuantizationType[name]).reshape(-1)


def main():
    rng = np.random.default_rng(20261129)
    with open(sys.argv[1], "wb") as out:
        for name in FORMATS:
            data = random_bytes(rng, name)
            expected = floats(name, data).astype(np.float32)
            assert not np.isnan(expected).any(), name
            out.write(struct.pack("<III", int(gguf.GGMLQuantizationType[name]), data.size, expected.size))
            out.write(data.tobytes())
            out.write(expected.tobytes())


if __name__ == "__main__":
    main()
