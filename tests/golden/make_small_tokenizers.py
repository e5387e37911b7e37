#!/usr/bin/env python3
"""Trains small tokenizers on the project's own text, in the forms that the families of models have, and writes what
Hugging Face's tokenizers make of texts with them.

    python3 make_small_tokenizers.py tokenizers          (needs tokenizers 0.23.3 and sentencepiece 0.2.3)

tokenizers/NAME/ is a directory as a model has it: tokenizer.json, or tokenizer.model alone, with tokenizer_config.json.
tokenizers/golden.json: for every NAME the ids of `texts` as they are (special tokens parsed, none put in front) and as
plain text (with the begin-of-text token where the file says so), the decoded text of the former, and number and hash (FNV-1a over the ids as 32-bit little-endian) of those of the corpus.
"""

import io
import json
import random
import sys
from pathlib import Path

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2 as pb
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from make_tokenizer_golden import cl100k

HERE = Path(__file__).resolve().parent
CORPUS = (HERE / "mixed_corpus.txt").read_bytes().decode("utf-8")
SPACE = "\u2581"

TEXTS = [
    "", " ", "  ", "\n", "a", " a", "a ", "Hello world", " Hello  world \n", "don't DON'T we'll it's", "x = 1234567;\r\n\r\n\ty",
    "\u00e9 e\u0301 \u1e69 s\u0307\u0323 \u212b \u2126 \uac00 \u1100\u1161", "\U00010eab\U00011046 a\u05b0\u094d\u0315\u0300",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3002", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u0645\u0631\u062d\u0628\u0627", "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f600\U0001f600",
    "<s>a</s>", "a <s> b<|im_start|>user\nhi<|im_end|>\n<think>no</think>", "<|im_start|><|im_start|>", "<0x41><0x0A>", SPACE + "a" + SPACE + SPACE,
    "\u00a0\u3000\u2009x", "\u180e \u0085 \u200b", "\x00\x01\x7f", "for (int i = 0; i < n; ++i) { total += values[i]; }  // sum",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "the the the  the   the", "\ud55c\uad6d\uc5b4 \ubb38\uc7a5", "\u0e44\u0e17\u0e22 \u0939\u093f\u0928\u094d\u0926\u0940", "1 12 123 1234 \u0661\u0662\u0663 \u216b \u00bd",
]  # fmt: skip


def texts():
    """And random ones, of the characters that rules are about."""
    source = random.Random(11)
    parts = ["a", "the", "The", " ", "  ", "\n", "\r\n", "\t", "1", "22", "'", "'s", ".", "...", "\u00e9", "e\u0301", "\u4e2d",
             "\u4e2d\u6587", "<s>", "<|im_end|>", SPACE, "\u00a0", "_", "-", "\U0001f600", "\u0301"]  # fmt: skip
    return TEXTS + ["".join(source.choices(parts, k=12)) for _ in range(60)]


def training_text():
    pages = sorted((HERE.parent.parent / "docs").glob("*.md"))
    return [CORPUS] + [page.read_text(encoding="utf-8") for page in pages]


def special(*names):
    return [AddedToken(name, normalized=False, special=True) for name in names]


def byte_level(split, normalizer, merges, ignore_merges):
    tokenizer = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        split + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not isinstance(split[0], pre_tokenizers.Split))]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=256 + merges, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(training_text(), trainer)
    if ignore_merges:  # a whole piece that no merge leads to
        model = json.loads(tokenizer.to_str())["model"]
        model["vocab"]["\u0120values"] = len(model["vocab"])
        tokenizer.model = models.BPE(
            vocab=model["vocab"], merges=[tuple(merge) for merge in model["merges"]], ignore_merges=True
        )
    return tokenizer


def qwen_like():
    split = [pre_tokenizers.Split(Regex(cl100k(r"\p{N}")), "isolated")]
    tokenizer = byte_level(split, normalizers.NFC(), 150, False)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    tokenizer.add_tokens([AddedToken(name, normalized=False) for name in ("<think>", "</think>")])
    return tokenizer, {"bos_token": None, "eos_token": "<|im_end|>", "add_bos_token": False}


def llama3_like():
    split = [pre_tokenizers.Split(Regex(cl100k(r"\p{N}{1,3}")), "isolated")]
    tokenizer = byte_level(split, None, 150, True)
    tokenizer.add_special_tokens(special("<|begin|>", "<s>", "<|im_start|>", "<|im_end|>"))
    # Looked for where the others have left text; there is no normalizer.
    tokenizer.add_tokens([AddedToken("<think>", normalized=True), AddedToken("a <s", normalized=True)])
    bos = ("<|begin|>", tokenizer.token_to_id("<|begin|>"))
    template = processors.TemplateProcessing(single=f"{bos[0]} $A", special_tokens=[bos])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    return tokenizer, {"bos_token": "<|begin|>", "eos_token": "<|im_end|>"}


def smollm_like():
    tokenizer = byte_level([pre_tokenizers.Digits(individual_digits=True)], None, 60, False)
    tokenizer.add_special_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    return tokenizer, {"bos_token": "<|im_start|>", "eos_token": {"__type": "AddedToken", "content": "<|im_end|>"}}


def train_sentencepiece(kind):
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in training_text() for line in text.splitlines() if line]), model_writer=model,
        model_type=kind, vocab_size=480, byte_fallback=True, normalization_rule_name="identity", minloglevel=2,
        remove_extra_whitespaces=False, character_coverage=0.98, user_defined_symbols=["<|im_start|>", "<|im_end|>"],
        num_threads=1, hard_vocab_limit=False, allow_whitespace_only_pieces=True,
    )  # fmt: skip
    parsed = pb.ModelProto.FromString(model.getvalue())
    for piece in parsed.pieces:  # chat tokens are control tokens, as in Mistral's file
        if piece.type == 4:
            piece.type = 3
    parsed.trainer_spec.ClearField("user_defined_symbols")
    return parsed


def converted(proto, prepend):
    """As transformers' LlamaConverter does it."""
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    if proto.trainer_spec.model_type == 1:
        tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))
    else:
        ids = {piece: i for i, (piece, _) in enumerate(pieces)}
        merges = []
        for piece, score in pieces:
            local = [(piece[:i], piece[i:], score) for i in range(1, len(piece)) if piece[:i] in ids and piece[i:] in ids]
            merges.extend(sorted(local, key=lambda merge: (ids[merge[0]], ids[merge[1]])))
        merges.sort(key=lambda merge: (merge[2], len(merge[0]), len(merge[1])), reverse=True)
        tokenizer = Tokenizer(models.BPE(ids, [merge[:2] for merge in merges], unk_token="<unk>", fuse_unk=True,
                                         byte_fallback=True))  # fmt: skip
    if prepend == "normalizer":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(SPACE, prepend_scheme=prepend, split=prepend == "always")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.add_special_tokens(special("<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"))
    return tokenizer, {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False,
                       "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}  # fmt: skip


def fnv(ids):
    value = 0xCBF29CE484222325
    for token in ids:
        for byte in token.to_bytes(4, "little"):
            value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def golden_of(tokenizer):
    result = {"special": [], "decoded": [], "plain": []}
    source = json.loads(tokenizer.to_str())
    if source["model"]["type"] == "Unigram":
        # Its trie holds control tokens and bytes too, which SentencePiece's (and winnow's) does not: a text that spells
        # one would become it. Here those of control tokens get a name that no text has.
        for token in source["added_tokens"]:
            token["content"] = source["model"]["vocab"][token["id"]][0] = "\U0010fffd" + token["content"]
    plain = Tokenizer.from_str(json.dumps(source))
    # Every added token becomes a special one, and those are not parsed.
    added = [AddedToken(token.content, normalized=token.normalized, special=True)
             for token in plain.get_added_tokens_decoder().values()]  # fmt: skip
    plain.add_special_tokens(added)
    plain.encode_special_tokens = True
    for text in texts():
        if source["model"]["type"] == "Unigram" and "<0x" in text:  # as above, and a byte cannot be renamed
            for column in result.values():
                column.append(None)
            continue
        ids = tokenizer.encode(text, add_special_tokens=False).ids  # nothing in front
        result["special"].append(ids)
        result["decoded"].append(tokenizer.decode(ids, skip_special_tokens=False))
        result["plain"].append(plain.encode(text).ids)
    ids = tokenizer.encode(CORPUS).ids
    result["corpus_tokens"], result["corpus_hash"] = len(ids), fnv(ids)
    return result


def main():
    folder = Path(sys.argv[1])
    bpe, unigram = train_sentencepiece("bpe"), train_sentencepiece("unigram")
    made = {
        "bytes_qwen": (qwen_like(), None),
        "bytes_llama3": (llama3_like(), None),
        "bytes_smollm": (smollm_like(), None),
        "bpe_llama2": (converted(bpe, "normalizer"), None),
        "bpe_mistral": (converted(bpe, "first"), None),
        "bpe_model": (converted(bpe, "normalizer"), bpe),
        "unigram_words": (converted(unigram, "always"), None),
        "unigram_model": (converted(unigram, "normalizer"), unigram),
    }
    golden = {"texts": texts()}
    for name, ((tokenizer, config), proto) in made.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        if proto is None:
            content = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
            (folder / name / "tokenizer.json").write_text(content + "\n", encoding="utf-8")
        else:
            (folder / name / "tokenizer.model").write_bytes(proto.SerializeToString(deterministic=True))
        (folder / name / "tokenizer_config.json").write_text(json.dumps(config) + "\n", encoding="utf-8")
        golden[name] = golden_of(tokenizer)
        print(name, tokenizer.get_vocab_size(), "tokens;", golden[name]["corpus_tokens"], "of the corpus")
    (folder / "golden.json").write_text(json.dumps(golden, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
