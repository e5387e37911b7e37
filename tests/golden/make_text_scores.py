#!/usr/bin/env python3
"""Writes text_scores.jsonl: token F1, ROUGE-L, ROUGE-1 recall and edit similarity of made-up texts, by plain Python.

Written from the definitions (LongBench's normalisation, Lin's ROUGE with beta 1, indel ratio), without the code that it
checks. Usage: make_text_scores.py > text_scores.jsonl
"""

import functools
import json
import random
import re
import string
import sys
from collections import Counter

WORDS = ("the a an The river, River mill. corn wheel! water 1,234.50 $18 42 Élan élan Ärger ärger straße Ω ω Москва "
         "москва naïve don't (B) B 東京 \u200b x_y well-known \u2212 3.14").split()


def normalised(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split()).split()


def f1(shared, a, b):
    if shared == 0:
        return 0.0
    precision, recall = shared / a, shared / b
    return 2 * precision * recall / (precision + recall)


def token_f1(prediction, reference):
    a, b = Counter(normalised(prediction)), Counter(normalised(reference))
    return f1((a & b).total(), a.total(), b.total())


def lcs(a, b):
    sys.setrecursionlimit(100_000)

    @functools.cache
    def longest(i, j):
        if i == len(a) or j == len(b):
            return 0
        if a[i] == b[j]:
            return 1 + longest(i + 1, j + 1)
        return max(longest(i + 1, j), longest(i, j + 1))

    return longest(0, 0)


def rouge_l(prediction, reference):
    a, b = tuple(prediction.split()), tuple(reference.split())
    return f1(lcs(a, b), len(a), len(b))


def rouge1_recall(prediction, reference):
    plain = ["".join(c for c in text.lower() if c not in string.punctuation).split() for text in (prediction, reference)]
    a, b = map(Counter, plain)
    return (a & b).total() / b.total() if b else 0.0


def edit_similarity(prediction, reference):
    total = len(prediction) + len(reference)
    return 2 * lcs(prediction, reference) / total if total else 1.0


def main():
    draw = random.Random(1)
    pairs = [("", ""), ("", "river"), ("The", "a the an"), ("Ärger  im\tMühlbach\n", "ärger im mühlbach"),
             ("return x + 1", "return x - 1;")]
    for _ in range(35):
        reference = [draw.choice(WORDS) for _ in range(draw.randint(1, 14))]
        prediction = [draw.choice(WORDS) if draw.random() < 0.4 else word for word in reference if draw.random() < 0.9]
        pairs.append((draw.choice([" ", "  ", "\n"]).join(prediction), " ".join(reference)))
    for prediction, reference in pairs:
        print(json.dumps({"prediction": prediction, "reference": reference, "f1": token_f1(prediction, reference),
                          "rouge_l": rouge_l(prediction, reference),
                          "rouge1_recall": rouge1_recall(prediction, reference),
                          "edit": edit_similarity(prediction, reference)}))


if __name__ == "__main__":
    main()
