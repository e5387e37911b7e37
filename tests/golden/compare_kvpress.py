#!/usr/bin/env python3
"""Compares policy_oracle.py with NVIDIA's kvpress on small random Llamas and prints a Markdown table.

compare_kvpress.py          exit 1 if anything that should agree does not

Needs kvpress, transformers and torch (a CPU build will do) and no network: models are made here, weights are random.
Every press runs as a user would run it, inside a forward pass; its scores are caught on the way, its kept sets are read
from the cache that it leaves behind, or from the mask that kvpress keeps for heads of different lengths.
"""

import logging
import sys

import numpy as np
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

import kvpress
import kvpress.presses.kvzip_press as kvzip_module
import policy_oracle as oracle

TOKENS = 120
RATIO = 0.6  # share that is removed; 48 of 120 stay
BUDGET = 48
WINDOW = 12
ALPHA = 0.95  # Ada-KV's floor, high enough to matter with random weights
# Of scores, relative to the largest score of a head. kvpress and transformers round softmax weights to float32 even
# in a float64 model; methods without a softmax are held to more.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-5}
NO_SOFTMAX = {"KeyDiff", "Knorm"}
NO_SOFTMAX_TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}


def make_model(dtype, query_heads, layers, seed, attention):
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=97,
        hidden_size=16 * query_heads,
        intermediate_size=96,
        num_hidden_layers=layers,
        num_attention_heads=query_heads,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=2048,
        initializer_range=0.2,
    )
    config._attn_implementation = attention
    model = LlamaForCausalLM(config).to(dtype).eval()

    def rotary(x, position_ids):  # transformers computes angles in float32 whatever the model's type is
        angles = position_ids[..., None].to(torch.float64) * model.model.rotary_emb.inv_freq.to(torch.float64)
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    model.model.rotary_emb.forward = rotary
    return model


class Recorder:
    """Attention inputs of every layer, one entry for each forward pass."""

    def __init__(self, model):
        self.model, self.passes, self.hooks = model, [], []
        for layer in model.model.layers:
            self.hooks.append(layer.self_attn.register_forward_pre_hook(self.record, with_kwargs=True))

    def record(self, module, _, kwargs):
        if module.layer_idx == 0:
            self.passes.append([])
        self.passes[-1].append(kwargs["hidden_states"][0].detach())

    def remove(self):
        for hook in self.hooks:
            hook.remove()


def as_double(tensor):
    return tensor.detach().to(torch.float64).numpy()


def project(model, layer, name, hidden):
    """[heads, tokens, 16] of one projection, in the model's own precision."""
    rows = getattr(model.model.layers[layer].self_attn, name)(hidden)
    return as_double(rows.view(len(hidden), -1, 16).transpose(0, 1))


def rotated(model, layer, name, hidden, first):
    inverse = as_double(model.model.rotary_emb.inv_freq)
    return oracle.rotate(project(model, layer, name, hidden), first + np.arange(len(hidden)), inverse)


def make_trace(model, ids):
    recorder, cache = Recorder(model), DynamicCache()
    with torch.no_grad():
        model(ids, past_key_values=cache)
    recorder.remove()
    hidden = recorder.passes[0]
    layers = range(len(hidden))
    return oracle.Trace(
        q=np.array([rotated(model, layer, "q_proj", hidden[layer], 0) for layer in layers]),
        q_unrotated=np.array([project(model, layer, "q_proj", hidden[layer]) for layer in layers]),
        k=np.array([as_double(cache.layers[layer].keys[0]) for layer in layers]),
        v=np.array([as_double(cache.layers[layer].values[0]) for layer in layers]),
        prompt_length=TOKENS,
        inverse_frequencies=as_double(model.model.rotary_emb.inv_freq),
        w_o=np.array([as_double(layer.self_attn.o_proj.weight) for layer in model.model.layers]),
    )


def run_press(model, ids, press, scorer=None):
    """(scores by layer, cache) of a press that acts in the forward pass. scorer: the inner press of a wrapper."""
    caught, original = [], (scorer or press).score

    def score(*arguments, **keywords):
        result = original(*arguments, **keywords)
        caught.append(as_double(result[0]))
        return result

    (scorer or press).score = score
    cache = DynamicCache()
    with torch.no_grad(), press(model):
        model(ids, past_key_values=cache)
    return caught, cache


def kept_in_cache(trace, cache):
    """Tokens of the rows that are left, found by their keys."""
    kept = []
    for layer in range(trace.layers):
        kept.append([])
        for head in range(trace.kv_heads):
            rows = as_double(cache.layers[layer].keys[0, head])
            distance = np.abs(rows[:, None, :] - trace.k[layer, head][None]).max(axis=-1)
            assert (distance.min(axis=1) == 0).all()
            kept[-1].append(np.sort(distance.argmin(axis=1)))
    return kept


def kept_by_mask(trace, model):
    """Tokens that AdaKVPress and KVzipPress have not masked."""
    kept = []
    for layer in model.model.layers:
        _, heads, slots = (np.asarray(index) for index in layer.self_attn.masked_key_indices)
        kept.append([np.setdiff1d(np.arange(trace.tokens), slots[heads == head]) for head in range(trace.kv_heads)])
    return kept


def largest_difference(ours, theirs):
    """Over the slots that have a score: |difference| / largest |score| of the head."""
    worst = 0.0
    for layer, heads in enumerate(ours.values):
        for head, values in enumerate(heads):
            scored = ours.scored[layer][head]
            worst = max(worst, np.abs(values - theirs[layer][head])[scored].max() / np.abs(values[scored]).max())
    return worst


def overlap(ours, theirs):
    """Share of our kept slots that are kept there as well."""
    pairs = [(a, b) for x, y in zip(ours, theirs) for a, b in zip(x, y)]
    return sum(np.isin(a, b).sum() for a, b in pairs) / sum(len(a) for a, _ in pairs)


def same(ours, theirs):
    return all(np.array_equal(a, b) for x, y in zip(ours, theirs) for a, b in zip(x, y))


class Comparison:
    """All presses on one model. rows: name -> (score difference or None, kept sets equal or overlap, must agree)."""

    def __init__(self, dtype, query_heads, layers, seed):
        self.dtype, self.rows = dtype, {}
        self.model = make_model(dtype, query_heads, layers, seed, "sdpa")
        self.eager = make_model(dtype, query_heads, layers, seed, "eager")
        self.ids = torch.randint(0, 97, (1, TOKENS), generator=torch.Generator().manual_seed(seed))
        self.trace = make_trace(self.model, self.ids)
        self.view = oracle.full_view(self.trace)

    def add(self, name, difference, ours, theirs, must_agree=True):
        self.rows[name] = (difference, overlap(ours, theirs), must_agree)
        if must_agree:
            tolerance = (NO_SOFTMAX_TOLERANCE if name in NO_SOFTMAX else TOLERANCE)[self.dtype]
            assert difference is None or difference <= tolerance, f"{name}: scores differ by {difference:.1e}"
            assert same(ours, theirs), f"{name}: kept sets differ"

    def keep(self, scores, sinks=0, recent=0, budgets=BUDGET):
        return oracle.keep_per_head(scores, self.view.held, budgets, sinks, recent)

    def compare(self, name, press, scores, sinks=0, recent=0, model=None):
        theirs, cache = run_press(model or self.model, self.ids, press)
        trace = self.trace if model is None else make_trace(model, self.ids)
        self.add(
            name, largest_difference(scores, theirs), self.keep(scores, sinks, recent), kept_in_cache(trace, cache)
        )
        return cache

    def run(self):
        view = self.view
        streaming = oracle.streaming_llm(view)
        _, cache = run_press(self.model, self.ids, kvpress.StreamingLLMPress(RATIO))
        self.add("StreamingLLM", None, self.keep(streaming, 4), kept_in_cache(self.trace, cache))
        self.compacted()

        snapkv = oracle.snapkv_prefill(view, WINDOW)
        cache = self.compare("SnapKV", kvpress.SnapKVPress(RATIO, WINDOW, 5), snapkv, recent=WINDOW)
        every = oracle.snapkv(view, WINDOW)
        self.add("SnapKV, sum over the group", None, self.keep(every, 0, WINDOW), kept_in_cache(self.trace, cache))
        self.compare(
            "ObservedAttention",
            kvpress.ObservedAttentionPress(RATIO),
            oracle.observed_attention(view),
            model=self.eager,
        )
        _, cache = run_press(self.eager, self.ids, kvpress.ObservedAttentionPress(RATIO))
        self.add(
            "H2O, as published",
            None,
            self.keep(oracle.h2o(view), 0, oracle.h2o_recent(BUDGET)),
            kept_in_cache(make_trace(self.eager, self.ids), cache),
            must_agree=False,
        )

        tova = oracle.tova(view)
        for heads in tova.scored:
            for mask in heads:
                mask[-1] = False  # the press protects the newest token by a made-up score
        self.compare("TOVA", kvpress.TOVAPress(RATIO), tova, recent=1)
        self.compare("KeyDiff", kvpress.KeyDiffPress(RATIO), oracle.keydiff(view))
        self.compare("Knorm", kvpress.KnormPress(RATIO), oracle.knorm(view))
        for epsilon in (0.0, 0.01):
            self.compare(
                f"ExpectedAttention, epsilon {epsilon:g}",
                kvpress.ExpectedAttentionPress(RATIO, epsilon=epsilon),
                oracle.expected_attention(view, epsilon=epsilon),
                sinks=4,
            )
        self.pyramid(snapkv)
        self.ada(snapkv, kvpress.SnapKVPress(RATIO, WINDOW, 5), "SnapKV", 0, WINDOW)
        self.ada(oracle.expected_attention(view), kvpress.ExpectedAttentionPress(RATIO), "ExpectedAttention", 4, 0)
        for plus in (False, True):
            for layerwise in (False, True):
                self.kvzip(plus, layerwise)
        theirs, cache = run_press(self.model, self.ids, kvpress.RandomPress(RATIO, seed=1))
        assert all(len(tokens) == BUDGET for heads in kept_in_cache(self.trace, cache) for tokens in heads)
        return self.rows

    def compacted(self):
        """StreamingLLM with positions inside the cache: the keys themselves are compared."""
        inner = kvpress.StreamingLLMPress(RATIO)
        _, cache = run_press(self.model, self.ids, kvpress.KeyRerotationPress(inner), scorer=inner)
        slots = oracle.keep_slots(np.arange(TOKENS, dtype=float), np.arange(TOKENS), BUDGET, sinks=4)
        worst = 0.0
        for layer in range(self.trace.layers):
            for head in range(self.trace.kv_heads):
                ours = oracle.compacted_keys(self.trace, layer, head, slots)
                theirs = as_double(cache.layers[layer].keys[0, head])
                worst = max(worst, np.abs(ours - theirs).max() / np.abs(ours).max())
        # KeyRerotationPress has angles of its own, in float32.
        assert worst <= TOLERANCE[torch.float32]
        self.rows["StreamingLLM, compacted positions (keys)"] = (worst, 1.0, True)

    def pyramid(self, snapkv):
        """Same selection with kvpress's budgets; then how far its budgets are from ours."""
        press = kvpress.PyramidKVPress(RATIO, WINDOW, 5, beta=2)
        theirs, cache = run_press(self.model, self.ids, press)
        kept = kept_in_cache(self.trace, cache)
        budgets = [len(heads[0]) for heads in kept]
        exact, _ = oracle.pyramid_budgets(self.trace.layers, BUDGET + WINDOW, WINDOW, TOKENS, beta=2)
        assert all(abs(ours - WINDOW - budget) <= 0.5 + 1e-6 for ours, budget in zip(exact, budgets)), (exact, budgets)
        self.add(
            "PyramidKV, its budgets", largest_difference(snapkv, theirs), self.keep(snapkv, 0, WINDOW, budgets), kept
        )
        _, whole = oracle.pyramid_budgets(self.trace.layers, BUDGET, WINDOW, TOKENS, beta=2)
        self.add(
            f"PyramidKV, our budgets {whole} for its {budgets}",
            None,
            self.keep(snapkv, 0, WINDOW, whole),
            kept,
            must_agree=False,
        )

    def ada(self, scores, press, name, sinks, recent):
        """kvpress counts protected slots in the floor: the same with that floor, then with ours."""
        theirs, _ = run_press(self.model, self.ids, kvpress.AdaKVPress(press, alpha_safeguard=ALPHA), scorer=press)
        kept = kept_by_mask(self.trace, self.model)
        floor = int(BUDGET * ALPHA) - sinks - recent
        ours = oracle.keep_over_heads(scores, self.view.held, BUDGET, sinks, recent, floor=floor)
        # The press has overwritten the scores of the floor's slots, in place.
        self.add(f"AdaKV({name}), its floor", None, ours, kept)
        assert any(
            len(tokens) == floor + sinks + recent for heads in kept for tokens in heads
        ), "the floor held nobody up"
        ours = oracle.ada_kv(scores, self.view.held, BUDGET, sinks, recent, alpha=ALPHA)
        self.add(f"AdaKV({name}), our floor", None, ours, kept, must_agree=False)

    def kvzip(self, plus, layerwise):
        class Tokenizer:  # KVzipPress asks for one by name; ours knows three texts
            chat_template = None
            texts = {"": 0, "\n": 1}

            @classmethod
            def from_pretrained(cls, _):
                return cls()

            def encode(self, text, **_):
                length = self.texts.get(text, 7)
                return torch.arange(length).unsqueeze(0)

        kvzip_module.AutoTokenizer = Tokenizer
        press = kvpress.KVzipPress(RATIO, layerwise=layerwise, kvzip_plus_normalization=plus, chunk_size=50)
        caught, original = [], press.compress_post

        def compress_post(model):
            caught.append(as_double(press.score_val[:, 0]))
            original(model)

        press.compress_post = compress_post
        recorder = Recorder(self.model)
        torch.set_default_dtype(self.dtype)  # the press makes its mask in the default type
        with torch.no_grad(), press(self.model):
            self.model(input_ids=self.ids, past_key_values=DynamicCache())
        torch.set_default_dtype(torch.float32)
        recorder.remove()
        replays = []
        for i, hidden in enumerate(recorder.passes[1:]):
            layers = range(len(hidden))
            replays.append(
                {
                    "start": 50 * i,
                    "end": min(50 * (i + 1), TOKENS),
                    "hidden": np.array([as_double(rows) for rows in hidden]),
                    "q": np.array([rotated(self.model, layer, "q_proj", hidden[layer], TOKENS) for layer in layers]),
                    "k": np.array([rotated(self.model, layer, "k_proj", hidden[layer], TOKENS) for layer in layers]),
                }
            )
        assert len(replays) == 3
        scores = oracle.kvzip(self.trace, replays, sinks=4, plus=plus)
        kept = oracle.keep_over_heads(scores, self.view.held, BUDGET, sinks=4, whole_model=not layerwise)
        name = f"KVzip{'+' if plus else ''}, {'each layer' if layerwise else 'whole model'}"
        self.add(name, largest_difference(scores, caught[0]), kept, kept_by_mask(self.trace, self.model))


def main():
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    print(
        f"kvpress against policy_oracle.py: {TOKENS} tokens, {BUDGET} stay; largest score difference relative to a "
        "head's largest score; share of kept slots in common\n"
    )
    failed = False
    for query_heads, layers, seed in ((4, 3, 1), (6, 2, 2)):
        results = {}
        for dtype in TOLERANCE:
            try:
                results[dtype] = Comparison(dtype, query_heads, layers, seed).run()
            except AssertionError as error:
                failed = True
                print(f"FAILED ({query_heads} query heads, {dtype}): {error}")
                results[dtype] = {}
        print(f"\n{layers} layers, {query_heads} query heads, 2 KV heads\n")
        print(
            "| method | float64 scores | float32 scores | kept in common, float64 | float32 | |\n"
            "|---|---|---|---|---|---|"
        )
        for name in results[torch.float64]:
            cells = [results[dtype].get(name, (None, float("nan"), True)) for dtype in TOLERANCE]
            scores = " | ".join("" if cell[0] is None else f"{cell[0]:.1e}" for cell in cells)
            shares = " | ".join(f"{100 * cell[1]:.1f} %" for cell in cells)
            print(f"| {name} | {scores} | {shares} | {'must agree' if cells[0][2] else 'differs by definition'} |")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
