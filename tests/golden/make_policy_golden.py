#!/usr/bin/env python3
"""Writes policies_*.json and policies_*.bin: inputs of eviction policies and what policy_oracle.py makes of them.

make_policy_golden.py [--out DIR]     (README.md, "Golden policies", describes the files)

Inputs are drawn by NumPy's PCG64 from the seed in each JSON file and rounded to bfloat16, so that a cache of either
type holds them exactly. A seed is refused if any kept set hangs on a near-tie that float32 arithmetic could flip.
"""

import argparse
import json
import os

import numpy as np

import policy_oracle as oracle

MIN_MARGIN = 1e-4  # between the worst kept and the best dropped score, relative to the larger
REPLAY_INSTRUCTION = 6  # tokens that stand for "repeat the previous context"
REPLAY_TAIL = 8  # last tokens of the previous chunk


class Writer:
    """Arrays one after another in a .bin file, each described in a JSON object."""

    TYPES = {"f64": "<f8", "f32": "<f4", "u8": "u1", "bf16": "<u2"}

    def __init__(self):
        self.arrays, self.content = {}, b""

    def add(self, name, array, dtype):
        array = np.asarray(array)
        assert dtype != "u8" or array.max(initial=0) < 256, f"{name} does not fit a byte"
        if dtype == "bf16":
            bits = np.ascontiguousarray(array, dtype="<f4").view("<u4")
            assert not (bits & 0xFFFF).any(), f"{name} is not representable in bfloat16"
            array = bits >> 16
        self.content += b"\0" * (-len(self.content) % 8)
        raw = np.ascontiguousarray(array, dtype=self.TYPES[dtype])
        self.arrays[name] = {"dtype": dtype, "shape": list(raw.shape), "offset": len(self.content)}
        self.content += raw.tobytes()


def to_bfloat16(x):
    """Nearest bfloat16 (ties to even), as float64."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def smooth_rows(rng, tokens, width):
    """Hidden states in which neighbours resemble each other, as they do in text; every ninth stands alone."""
    rows = rng.standard_normal((tokens, width))
    for i in range(1, tokens):
        if i % 9:
            rows[i] = 0.6 * rows[i - 1] + 0.8 * rows[i]
    return rows


def draw_layers(case, rng):
    """Per layer: maps from hidden states to unrotated queries, keys and values; each head has its own mean."""
    hidden, d = case["hidden"], case["head_dim"]
    layers = []
    for _ in range(case["layers"]):
        maps = {}
        for name, heads, scale, mean in (
            ("q", case["query_heads"], 1.3, 0.8),
            ("k", case["kv_heads"], 1.0, 0.7),
            ("v", case["kv_heads"], 1.0, 0.3),
        ):
            maps[name] = (
                scale * rng.standard_normal((heads, hidden, d)) / np.sqrt(hidden),
                mean * rng.standard_normal((heads, 1, d)),
            )
        layers.append(maps)
    return layers


def project(maps, rows):
    weights, means = maps
    return rows @ weights + means


def make_trace(case, rng, layers):
    inverse = case["rope_theta"] ** (-np.arange(case["head_dim"] // 2) / (case["head_dim"] // 2))
    positions = np.arange(case["tokens"])
    q, q_unrotated, k, v = [], [], [], []
    for maps in layers:
        rows = smooth_rows(rng, case["tokens"], case["hidden"])
        q_unrotated.append(to_bfloat16(project(maps["q"], rows)))
        q.append(to_bfloat16(oracle.rotate(q_unrotated[-1], positions, inverse)))
        k.append(to_bfloat16(oracle.rotate(project(maps["k"], rows), positions, inverse)))
        v.append(to_bfloat16(project(maps["v"], rows)))
    w_o = to_bfloat16(
        rng.standard_normal((case["layers"], case["hidden"], case["query_heads"] * case["head_dim"]))
        / np.sqrt(case["hidden"])
    )
    return oracle.Trace(np.array(q), np.array(q_unrotated), np.array(k), np.array(v), case["prompt"], inverse, w_o)


def make_replays(case, rng, layers, trace):
    """Chunks of the prompt, each with an input of its own; its positions go on after the prompt."""
    replays = []
    for start in range(0, case["prompt"], case["chunk"]):
        end = min(start + case["chunk"], case["prompt"])
        length = REPLAY_INSTRUCTION + (REPLAY_TAIL if start else 0) + end - start
        positions = case["prompt"] + np.arange(length)
        hidden = [to_bfloat16(smooth_rows(rng, length, case["hidden"])) for _ in layers]
        inverse = trace.inverse_frequencies
        replays.append(
            {
                "start": start,
                "end": end,
                "hidden": np.array(hidden),
                "q": np.array(
                    [to_bfloat16(oracle.rotate(project(m["q"], h), positions, inverse)) for m, h in zip(layers, hidden)]
                ),
                "k": np.array(
                    [to_bfloat16(oracle.rotate(project(m["k"], h), positions, inverse)) for m, h in zip(layers, hidden)]
                ),
            }
        )
    return replays


def margin(kept_scores, dropped_scores):
    if not len(kept_scores) or not len(dropped_scores):
        return np.inf
    low, high = np.min(kept_scores), np.max(dropped_scores)
    assert low >= high
    return (low - high) / max(abs(low), abs(high), 1e-300)


def head_margins(scores, held, kept, sinks, recent):
    """Smallest margin of selections that each head makes for itself."""
    found = []
    for layer, heads in enumerate(held):
        for head, slots in enumerate(heads):
            free = ~oracle.protected(slots, sinks, recent)
            stays = np.isin(slots, kept[layer][head])
            values = scores.values[layer][head]
            found.append(margin(values[free & stays], values[free & ~stays]))
    return min(found)


class Case:
    def __init__(self, parameters):
        self.parameters = parameters
        rng = np.random.Generator(np.random.PCG64(parameters["seed"]))
        layers = draw_layers(parameters, rng)
        self.trace = make_trace(parameters, rng, layers)
        self.replays = make_replays(parameters, rng, layers, self.trace)
        self.writer, self.results = Writer(), []

    def record(self, policy, form, margin_found, **parameters):
        assert margin_found >= MIN_MARGIN, f"{policy} ({form}): margin {margin_found:.1e}: take another seed"
        self.results.append({"policy": policy, "form": form, "margin": float(f"{margin_found:.3g}"), **parameters})

    def add_inputs(self):
        trace = self.trace
        for name in ("q", "q_unrotated", "k", "v", "w_o"):
            self.writer.add(name, getattr(trace, name), "bf16")
        self.writer.add("inverse_frequencies", trace.inverse_frequencies, "f64")
        for i, replay in enumerate(self.replays):
            for name in ("q", "k", "hidden"):
                self.writer.add(f"replay{i}/{name}", replay[name], "bf16")

    def add_scores(self, prefix, values, scored):
        """float32: its rounding is far below MIN_MARGIN. The mask is left out where every slot has a score."""
        self.writer.add(f"{prefix}/scores", values, "f32")
        if not np.all(scored):
            self.writer.add(f"{prefix}/scored", scored, "u8")

    def add_once(self, policy, form, scores, held, kept, margin_found, **parameters):
        """One eviction; all heads hold the same tokens before, maybe different numbers after."""
        prefix = f"{policy}/{form}"
        self.add_scores(prefix, scores.values, scores.scored)
        self.writer.add(f"{prefix}/counts", [[len(tokens) for tokens in heads] for heads in kept], "u8")
        self.writer.add(f"{prefix}/kept", np.concatenate([tokens for heads in kept for tokens in heads]), "u8")
        self.record(policy, form, margin_found, slots=len(held[0][0]), **parameters)

    def add_periodic(self, policy, function, sinks, recent, needs_future=False, **parameters):
        budget, interval = self.parameters["budget"], self.parameters["interval"]
        steps = oracle.run_periodic(self.trace, function, budget, interval, sinks, recent, needs_future)
        found = min(head_margins(scores, view.held, kept, sinks, recent) for view, scores, kept in steps)
        prefix = f"{policy}/periodic"
        self.add_scores(prefix, [scores.values for _, scores, _ in steps], [scores.scored for _, scores, _ in steps])
        self.writer.add(f"{prefix}/kept", [kept for _, _, kept in steps], "u8")
        self.record(
            policy,
            "periodic",
            found,
            budget=budget,
            interval=interval,
            sinks=sinks,
            recent=recent,
            evictions=len(steps),
            **parameters,
        )

    def add_all_periodic(self):
        budget, interval, window = (self.parameters[name] for name in ("budget", "interval", "window"))
        self.add_periodic("streaming-llm", oracle.streaming_llm, 4, 0)
        self.add_periodic("h2o", oracle.h2o, 0, oracle.h2o_recent(budget))
        self.add_periodic("h2o-sinks", oracle.h2o, 4, oracle.h2o_recent(budget), base="h2o")
        self.add_periodic("tova", oracle.tova, 0, 1)
        self.add_periodic("snapkv", lambda view: oracle.snapkv(view, window), 4, window, window=window, kernel=5)
        self.add_periodic("r-kv", oracle.r_kv, 0, 8, window=8, kernel=7, weight=0.1, threshold=0.5)
        # A higher threshold: with heads of 16 nearly every row has a similarity above 0.5: the detail would not show.
        strict = {"window": 8, "kernel": 7, "weight": 0.1, "threshold": 0.8}
        self.add_periodic("r-kv-strict", lambda view: oracle.r_kv(view, **strict), 0, 8, base="r-kv", **strict)
        first = dict(strict, zero_first_column=True)
        self.add_periodic("r-kv-first-column", lambda view: oracle.r_kv(view, **first), 0, 8, base="r-kv", **first)
        self.add_periodic("keydiff", oracle.keydiff, 4, 8)
        self.add_periodic("knorm", oracle.knorm, 4, 8)
        self.add_periodic(
            "expected-attention",
            lambda view: oracle.expected_attention(view, epsilon=0.01, query_window=32),
            4,
            8,
            skip=4,
            future=512,
            epsilon=0.01,
            query_window=32,
        )
        self.add_periodic("golden", lambda view: oracle.golden(view, budget, interval), 0, interval, needs_future=True)

    def add_all_once(self):
        """Policies that act when the prompt has been read."""
        window, budget = self.parameters["window"], self.parameters["budget"]
        view = oracle.full_view(self.trace, self.trace.prompt_length)
        held = view.held
        snapkv = oracle.snapkv_prefill(view, window)

        def uniform(policy, scores, sinks, recent, **parameters):
            kept = oracle.keep_per_head(scores, held, budget, sinks, recent)
            self.add_once(
                policy,
                "prefill",
                scores,
                held,
                kept,
                head_margins(scores, held, kept, sinks, recent),
                budget=budget,
                sinks=sinks,
                recent=recent,
                **parameters,
            )

        uniform("snapkv-prefill", snapkv, 4, window, window=window, kernel=5)
        expected = oracle.expected_attention(view)
        uniform("expected-attention", expected, 4, 0, skip=4, future=512, epsilon=0.0, query_window=0)

        exact, whole = oracle.pyramid_budgets(self.trace.layers, budget, 4 + window, view.seen)
        kept = oracle.keep_per_head(snapkv, held, whole, 4, window)
        self.add_once(
            "pyramidkv",
            "prefill",
            snapkv,
            held,
            kept,
            head_margins(snapkv, held, kept, 4, window),
            budget=budget,
            sinks=4,
            recent=window,
            window=window,
            kernel=5,
            beta=20,
            exact_budgets=exact,
            whole_budgets=whole,
        )

        def ada(policy, base, scores, recent, alpha, **parameters):
            kept = oracle.ada_kv(scores, held, budget, 4, recent, alpha)
            floor = int(alpha * (budget - 4 - recent))
            found = shared_margin(scores, held, kept, 4, recent, False, floor)
            self.add_once(
                policy,
                "prefill",
                scores,
                held,
                kept,
                found,
                base=base,
                budget=budget,
                sinks=4,
                recent=recent,
                alpha=alpha,
                **parameters,
            )
            return min(len(tokens) for heads in kept for tokens in heads) == floor + 4 + recent

        ada("ada-kv-snapkv", "snapkv-prefill", snapkv, window, 0.2, window=window, kernel=5)
        bound = ada("ada-kv-snapkv-floor", "snapkv-prefill", snapkv, window, 0.9, window=window, kernel=5)
        assert bound, "no head needs the floor: take another seed"
        ada("ada-kv-expected-attention", "expected-attention", expected, 0, 0.2, skip=4, future=512, epsilon=0.0)

        for plus, name in ((False, "kvzip"), (True, "kvzip-plus")):
            scores = oracle.kvzip(self.trace, self.replays, sinks=4, plus=plus)
            kept = oracle.keep_over_heads(scores, held, budget, sinks=4, whole_model=True)
            self.add_once(
                name,
                "global",
                scores,
                held,
                kept,
                shared_margin(scores, held, kept, 4, 0, True, 0),
                budget=budget,
                sinks=4,
                recent=0,
            )
            kept = oracle.keep_per_head(scores, held, budget, sinks=4)
            self.add_once(
                name,
                "uniform",
                scores,
                held,
                kept,
                head_margins(scores, held, kept, 4, 0),
                budget=budget,
                sinks=4,
                recent=0,
            )

        everything = oracle.full_view(self.trace)
        pinned = oracle.random_candidates(everything, recent=8)
        self.writer.add("random-pinned-prompt/prefill/candidates", pinned.scored, "u8")
        self.results.append(
            {"policy": "random-pinned-prompt", "form": "prefill", "slots": everything.seen, "recent": 8}
        )

        slots = oracle.keep_slots(np.arange(view.seen, dtype=float), np.arange(view.seen), budget, sinks=4)
        compacted = [
            [oracle.compacted_keys(self.trace, layer, head, slots) for head in range(self.trace.kv_heads)]
            for layer in range(self.trace.layers)
        ]
        self.writer.add("streaming-llm-compacted/prefill/kept", slots, "u8")
        self.writer.add("streaming-llm-compacted/prefill/keys", compacted, "f32")
        self.results.append(
            {"policy": "streaming-llm-compacted", "form": "prefill", "slots": view.seen, "budget": budget, "sinks": 4}
        )

    def write(self, folder, name):
        with open(os.path.join(folder, name + ".bin"), "wb") as file:
            file.write(self.writer.content)
        arrays = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in self.writer.arrays.items())
        results = ",\n".join("  " + json.dumps(result) for result in self.results)
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as file:
            file.write(
                '{"format": 1,\n"case": '
                + json.dumps(self.parameters)
                + ',\n"replays": '
                + json.dumps([{"start": r["start"], "end": r["end"], "tokens": r["q"].shape[2]} for r in self.replays])
                + ',\n"results": [\n'
                + results
                + '],\n"arrays": {\n'
                + arrays
                + "}}\n"
            )


def shared_margin(scores, held, kept, sinks, recent, whole_model, floor):
    """Smallest margin of a selection that heads share: the shared order, and each head's floor."""
    found, layers = [], [range(len(held))] if whole_model else [[layer] for layer in range(len(held))]
    for shared in layers:
        stays, goes = [], []
        for layer in shared:
            for head, slots in enumerate(held[layer]):
                free = ~oracle.protected(slots, sinks, recent)
                inside = np.isin(slots, kept[layer][head])
                ordered = np.sort(scores.values[layer][head][free])[::-1]
                if 0 < floor < len(ordered):
                    found.append(margin(ordered[:floor], ordered[floor:]))
                stays.append(np.sort(scores.values[layer][head][free & inside])[::-1][floor:])
                goes.append(scores.values[layer][head][free & ~inside])
        found.append(margin(np.concatenate(stays), np.concatenate(goes)))
    return min(found)


def tie_cases(seed):
    """Selections full of ties: small integers as scores, several layers and heads, with and without protection."""
    rng = np.random.Generator(np.random.PCG64(seed))
    cases = []
    for layers, heads, slots, budget, sinks, recent, levels in (
        (1, 1, 12, 5, 0, 0, 1),
        (2, 3, 20, 8, 2, 3, 3),
        (3, 2, 17, 9, 4, 0, 2),
        (2, 2, 16, 6, 0, 6, 4),
    ):
        held = [[np.sort(rng.choice(40, slots, replace=False)) for _ in range(heads)] for _ in range(layers)]
        values = [[rng.integers(0, levels, slots).astype(float) for _ in range(heads)] for _ in range(layers)]
        scores = oracle.Scores(values, [[np.ones(slots, dtype=bool)] * heads] * layers)

        def lists(table):
            return [[[int(x) for x in row] for row in layer] for layer in table]

        cases.append(
            {
                "budget": budget,
                "sinks": sinks,
                "recent": recent,
                "positions": lists(held),
                "scores": lists(values),
                "per_head": lists(oracle.keep_per_head(scores, held, budget, sinks, recent)),
                "per_layer": lists(oracle.keep_over_heads(scores, held, budget, sinks, recent)),
                "per_layer_floor_2": (
                    lists(oracle.keep_over_heads(scores, held, budget, sinks, recent, floor=2))
                    if budget - sinks - recent >= 2
                    else None
                ),
                "whole_model": lists(oracle.keep_over_heads(scores, held, budget, sinks, recent, whole_model=True)),
            }
        )
    return {"format": 1, "seed": seed, "cases": cases}


CASES = {
    "policies_gqa2": {
        "seed": 18,
        "layers": 2,
        "query_heads": 4,
        "kv_heads": 2,
        "head_dim": 16,
        "hidden": 64,
        "tokens": 160,
        "prompt": 96,
        "budget": 48,
        "interval": 16,
        "window": 8,
        "chunk": 48,
        "rope_theta": 10000.0,
    },
    "policies_gqa3": {
        "seed": 13,
        "layers": 3,
        "query_heads": 6,
        "kv_heads": 2,
        "head_dim": 16,
        "hidden": 48,
        "tokens": 112,
        "prompt": 70,
        "budget": 40,
        "interval": 20,
        "window": 12,
        "chunk": 32,
        "rope_theta": 500000.0,
    },
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)))
    folder = parser.parse_args().out
    os.makedirs(folder, exist_ok=True)
    for name, parameters in CASES.items():
        case = Case(parameters)
        case.add_inputs()
        case.add_all_periodic()
        case.add_all_once()
        case.write(folder, name)
        print(
            f"{name}: {len(case.results)} results, {len(case.writer.content)} bytes, smallest margin "
            f"{min(result.get('margin', np.inf) for result in case.results):.1e}"
        )
    with open(os.path.join(folder, "policies_ties.json"), "w", encoding="utf-8") as file:
        json.dump(tie_cases(5), file)
        file.write("\n")


if __name__ == "__main__":
    main()
