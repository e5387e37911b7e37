#!/usr/bin/env python3
"""The truth that winnow's logits are measured against.

De-quantises every tensor of a GGUF file with the `gguf` package and runs the Llama architecture two ways that share
nothing but those weights:

  NumpyModel          float64, written here from the architecture. It takes the Q and K rows in GGUF's order and rotates
                      neighbouring pairs (2i, 2i+1).
  TransformersModel   `transformers.LlamaForCausalLM` in float32. It needs the rows in Hugging Face's order, so the
                      converter's permutation is undone, and it rotates pairs (i, i + head_dim/2).

A mistake in the permutation, the rotation or the head grouping would therefore show as a difference. The golden files
hold NumpyModel's logits: at float64 their own rounding is far below anything that is compared with them.

Run as a program it compares the two on a text or on a golden ids file. It needs gguf and numpy, tokenizers for a text,
and torch and transformers for the second model.
"""

import argparse
import struct
from pathlib import Path

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

IDS_MAGIC = b"WNIDSEQ1"
HEADER = struct.Struct("<8s4I")  # Every golden file and every dump starts with this: magic and four counts.


class GgufModel:
    """Metadata and de-quantised float32 tensors of a GGUF file of the llama architecture."""

    def __init__(self, path):
        reader = GGUFReader(str(path))
        self.metadata = {key: field.contents() for key, field in reader.fields.items()}
        arch = self.metadata["general.architecture"]
        if arch != "llama":
            raise SystemExit(f"{path}: expected general.architecture llama, found {arch}")
        self.num_layers = self.metadata["llama.block_count"]
        self.hidden = self.metadata["llama.embedding_length"]
        self.ffn = self.metadata["llama.feed_forward_length"]
        self.num_heads = self.metadata["llama.attention.head_count"]
        self.num_kv_heads = self.metadata["llama.attention.head_count_kv"]
        self.head_dim = self.metadata.get("llama.rope.dimension_count", self.hidden // self.num_heads)
        if self.head_dim * self.num_heads != self.hidden:
            raise SystemExit(f"{path}: {self.num_heads} heads of {self.head_dim} are not the hidden size {self.hidden}")
        self.rope_theta = self.metadata.get("llama.rope.freq_base", 10000.0)
        self.norm_epsilon = self.metadata["llama.attention.layer_norm_rms_epsilon"]
        self.context = self.metadata["llama.context_length"]
        self.tensors = {
            tensor.name: dequantize(tensor.data, tensor.tensor_type).astype(np.float32) for tensor in reader.tensors
        }
        # A file without output.weight ties the output to the embedding.
        self.tensors.setdefault("output.weight", self.tensors["token_embd.weight"])
        self.vocab = self.tensors["token_embd.weight"].shape[0]


class NumpyModel:
    """A plain float64 forward pass over one sequence, with GGUF's own row order."""

    name = "numpy float64"

    def __init__(self, gguf_model):
        self.m = gguf_model
        self.w = {name: tensor.astype(np.float64) for name, tensor in gguf_model.tensors.items()}

    def _norm(self, x, weight):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.m.norm_epsilon) * weight

    @staticmethod
    def _rotate(x, cos, sin):
        """Rotates neighbouring pairs of [token][head][dim] by angles [token][dim/2]."""
        even, odd = x[..., 0::2], x[..., 1::2]
        out = np.empty_like(x)
        out[..., 0::2] = even * cos[:, None, :] - odd * sin[:, None, :]
        out[..., 1::2] = even * sin[:, None, :] + odd * cos[:, None, :]
        return out

    def _attention(self, x, layer, cos, sin, mask):
        m, prefix, num_tokens = self.m, f"blk.{layer}.", len(x)
        q = (x @ self.w[prefix + "attn_q.weight"].T).reshape(num_tokens, m.num_heads, m.head_dim)
        k = (x @ self.w[prefix + "attn_k.weight"].T).reshape(num_tokens, m.num_kv_heads, m.head_dim)
        v = (x @ self.w[prefix + "attn_v.weight"].T).reshape(num_tokens, m.num_kv_heads, m.head_dim)
        q, k = self._rotate(q, cos, sin), self._rotate(k, cos, sin)
        heads_per_kv_head = m.num_heads // m.num_kv_heads
        out = np.empty_like(q)
        for head in range(m.num_heads):
            kv_head = head // heads_per_kv_head
            scores = q[:, head] @ k[:, kv_head].T / np.sqrt(m.head_dim) + mask
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            out[:, head] = (scores / scores.sum(axis=-1, keepdims=True)) @ v[:, kv_head]
        return out.reshape(num_tokens, m.hidden) @ self.w[prefix + "attn_output.weight"].T

    def _ffn(self, x, layer):
        prefix = f"blk.{layer}."
        gate = x @ self.w[prefix + "ffn_gate.weight"].T
        up = x @ self.w[prefix + "ffn_up.weight"].T
        return (gate / (1.0 + np.exp(-gate)) * up) @ self.w[prefix + "ffn_down.weight"].T

    def logits(self, ids):
        """Logits [token][vocab] of one sequence that starts at position 0."""
        m, num_tokens = self.m, len(ids)
        pairs = np.arange(m.head_dim // 2, dtype=np.float64)
        angles = np.arange(num_tokens, dtype=np.float64)[:, None] * m.rope_theta ** (-2.0 * pairs / m.head_dim)
        cos, sin = np.cos(angles), np.sin(angles)
        mask = np.triu(np.full((num_tokens, num_tokens), -np.inf), k=1)
        x = self.w["token_embd.weight"][np.asarray(ids)]
        for layer in range(m.num_layers):
            normed = self._norm(x, self.w[f"blk.{layer}.attn_norm.weight"])
            x = x + self._attention(normed, layer, cos, sin, mask)
            x = x + self._ffn(self._norm(x, self.w[f"blk.{layer}.ffn_norm.weight"]), layer)
        return self._norm(x, self.w["output_norm.weight"]) @ self.w["output.weight"].T


class TransformersModel:
    """Hugging Face's LlamaForCausalLM in float32 with the same de-quantised weights."""

    name = "transformers float32"

    def __init__(self, gguf_model):
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        m = gguf_model
        config = LlamaConfig(
            vocab_size=m.vocab,
            hidden_size=m.hidden,
            intermediate_size=m.ffn,
            num_hidden_layers=m.num_layers,
            num_attention_heads=m.num_heads,
            num_key_value_heads=m.num_kv_heads,
            max_position_embeddings=m.context,
            rope_theta=m.rope_theta,
            rms_norm_eps=m.norm_epsilon,
            hidden_act="silu",
            attn_implementation="eager",
            torch_dtype="float32",
        )
        names = {
            "attn_q": "self_attn.q_proj",
            "attn_k": "self_attn.k_proj",
            "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj",
            "ffn_gate": "mlp.gate_proj",
            "ffn_up": "mlp.up_proj",
            "ffn_down": "mlp.down_proj",
            "attn_norm": "input_layernorm",
            "ffn_norm": "post_attention_layernorm",
        }
        state = {
            "model.embed_tokens.weight": m.tensors["token_embd.weight"],
            "model.norm.weight": m.tensors["output_norm.weight"],
            "lm_head.weight": m.tensors["output.weight"],
        }
        for layer in range(m.num_layers):
            for gguf_name, hf_name in names.items():
                tensor = m.tensors[f"blk.{layer}.{gguf_name}.weight"]
                if gguf_name == "attn_q":
                    tensor = self._unpermute(tensor, m.num_heads)
                elif gguf_name == "attn_k":
                    tensor = self._unpermute(tensor, m.num_kv_heads)
                state[f"model.layers.{layer}.{hf_name}.weight"] = tensor
        self.torch = torch
        self.model = LlamaForCausalLM(config)
        # Strict except for buffers that the class makes itself; a weight that is missing or left over is an error.
        state = {name: torch.from_numpy(np.ascontiguousarray(tensor)) for name, tensor in state.items()}
        missing, unexpected = self.model.load_state_dict(state, strict=False)
        missing = [name for name in missing if "rotary_emb" not in name]
        if missing or unexpected:
            raise SystemExit(f"transformers: missing weights {missing}, unexpected weights {unexpected}")
        self.model.eval()

    @staticmethod
    def _unpermute(tensor, num_heads):
        """Undoes the converter's row order: pairs (2i, 2i+1) of a head become (i, i + head_dim/2) again."""
        rows, columns = tensor.shape
        return tensor.reshape(num_heads, rows // num_heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)

    def logits(self, ids):
        """Logits [token][vocab] of one sequence that starts at position 0."""
        with self.torch.no_grad():
            out = self.model(self.torch.tensor([[int(i) for i in ids]]), use_cache=False)
        return out.logits[0].numpy()


class LlamaCppModel:
    """llama.cpp through llama-cpp-python on the quantised file itself: default KV type (f16), no flash attention."""

    name = "llama.cpp"

    def __init__(self, path, num_threads, max_tokens):
        from llama_cpp import Llama

        self.llama = Llama(
            str(path),
            n_ctx=max_tokens,
            n_batch=512,
            n_threads=num_threads,
            n_threads_batch=num_threads,
            logits_all=True,
            flash_attn=False,
            verbose=False,
        )

    def logits(self, ids):
        """Logits [token][vocab] of one sequence that starts at position 0."""
        self.llama.reset()
        self.llama.eval([int(i) for i in ids])
        return np.array(self.llama.scores[: len(ids)])

    def encode(self, text):
        """Token ids by llama.cpp's own tokenizer, without BOS, special tokens taken as text."""
        return self.llama.tokenize(text.encode("utf-8"), add_bos=False, special=False)


def build_tokenizer(metadata):
    """Hugging Face `tokenizers` BPE from GGUF metadata; no added tokens, so text never becomes a special token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    pre = metadata["tokenizer.ggml.pre"]
    if pre != "smollm":
        raise SystemExit(f"tokenizer.ggml.pre: expected smollm, found {pre}")
    vocab = {token: index for index, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    # SmolLM's own tokenizer.json: every digit alone, then GPT-2's byte-level splitting.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def read_ids(path):
    """Reads a golden ids file: int32 [sequence][token], and the vocabulary size that it was made for."""
    data = Path(path).read_bytes()
    magic, num_sequences, num_tokens, vocab, _ = HEADER.unpack_from(data)
    if magic != IDS_MAGIC:
        raise SystemExit(f"{path}: expected magic {IDS_MAGIC!r}, found {magic!r}")
    expected = HEADER.size + 4 * num_sequences * num_tokens
    if len(data) != expected:
        raise SystemExit(f"{path}: expected {expected} bytes, found {len(data)}")
    return np.frombuffer(data, "<i4", offset=HEADER.size).reshape(num_sequences, num_tokens), vocab


def log_softmax(logits):
    """Log-probabilities over the last axis, in float64."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted


def main():
    parser = argparse.ArgumentParser(description="Compares the two reference models with each other.")
    parser.add_argument("--model", required=True, help="GGUF file")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", help="text file: its first --tokens tokens are run")
    source.add_argument("--ids", help="golden ids file: every sequence is run")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of --text to run (default: %(default)s)")
    args = parser.parse_args()

    gguf_model = GgufModel(args.model)
    if args.ids:
        sequences, _ = read_ids(args.ids)
    else:
        text = Path(args.text).read_text(encoding="utf-8")
        sequences = [build_tokenizer(gguf_model.metadata).encode(text).ids[: args.tokens]]
    first, second = NumpyModel(gguf_model), TransformersModel(gguf_model)
    for index, ids in enumerate(sequences):
        a, b = first.logits(ids), second.logits(ids)
        difference = np.abs(a - b)
        same = np.count_nonzero(a.argmax(axis=-1) == b.argmax(axis=-1))
        print(
            f"sequence {index}: {len(ids)} positions, largest difference {difference.max():.3e}, "
            f"mean {difference.mean():.3e}, same top-1 {same}/{len(ids)}, largest logit {np.abs(a).max():.2f}"
        )


if __name__ == "__main__":
    main()
