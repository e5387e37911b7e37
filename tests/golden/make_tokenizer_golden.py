#!/usr/bin/env python3
"""Writes what Hugging Face's tokenizers make of mixed_corpus.txt; the C++ tokenizer tests compare with it.

    python3 make_tokenizer_golden.py MODEL.gguf mixed_corpus.txt tokenizer_smollm2.json    (needs gguf and tokenizers)

tokenizer_smollm2.json: `ids` of the whole corpus as plain text, `chat_ids` of `chat_text` with special tokens parsed,
both with the vocabulary of the model named in `model`. `pieces`: for every pre-tokenizer the byte lengths of the
corpus's pieces, which need no model.
"""

import json
import sys
from pathlib import Path

from gguf import GGUFReader
from tokenizers import AddedToken, Regex, pre_tokenizers

from reference_model import build_tokenizer

CONTROL, USER_DEFINED = 3, 4
CHAT_TEXT = (
    "<|im_start|>system\nYou are terse.<|im_end|>\n<|im_start|>user\nCount to 12 <|im_end|><|im_end|>  <|im_end\n"
    "<|im_start|>assistant\n<|endoftext|>1<repo_name> <reponame><filename>2\n<|im_start|>"
)


def cl100k(number):
    """The patterns of the tokenizer.json files of Llama 3 and Qwen 2 differ in the part for numbers only."""
    return (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + number + r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


def pre_tokenizer(name):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name in ("gpt2", "smollm"))
    if name == "gpt2":
        return byte_level
    if name == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    number = {"llama-bpe": r"\p{N}{1,3}", "qwen2": r"\p{N}"}[name]
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(cl100k(number)), "isolated"), byte_level])


def main():
    model_path, corpus_path, output_path = sys.argv[1:]
    metadata = {key: field.contents() for key, field in GGUFReader(model_path).fields.items()}
    corpus = Path(corpus_path).read_bytes().decode("utf-8")
    tokenizer = build_tokenizer(metadata)
    golden = {"model": metadata["general.name"], "vocab_size": len(metadata["tokenizer.ggml.tokens"])}
    golden["ids"] = tokenizer.encode(corpus).ids

    types = zip(metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"])
    specials = [token for token, kind in types if kind in (CONTROL, USER_DEFINED)]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in specials])
    golden["chat_text"] = CHAT_TEXT
    golden["chat_ids"] = tokenizer.encode(CHAT_TEXT).ids

    # A byte-level piece has one character for every byte, so characters are counted.
    golden["pieces"] = {
        name: [len(piece) for piece, _ in pre_tokenizer(name).pre_tokenize_str(corpus)]
        for name in ("gpt2", "smollm", "llama-bpe", "qwen2")
    }
    Path(output_path).write_text(json.dumps(golden, separators=(",", ":")) + "\n", encoding="utf-8")
    print(len(golden["ids"]), "ids;", {name: len(pieces) for name, pieces in golden["pieces"].items()}, "pieces")


if __name__ == "__main__":
    main()
