#!/usr/bin/env python3
"""Checks what kvpress cannot check of policy_oracle.py: second formulations and hand-made cases.

check_policy_oracle.py      prints what was checked; an AssertionError says what is wrong
"""

import itertools

import numpy as np

import make_policy_golden
import policy_oracle as oracle


def golden_by_lists(block_scores, budget, interval):
    """Drops of each step for one head, by the list algorithm of the specification (golden 5.3)."""
    alive, drops = list(range(len(block_scores))), []
    for step in range(block_scores.shape[1]):
        if len(alive) <= budget + interval:
            break
        candidates = alive[:budget]
        future = {token: max(block_scores[token, step:]) for token in candidates}
        drops.append(sorted(candidates, key=lambda token: (future[token], token))[:interval])
        alive = [token for token in alive if token not in drops[-1]]
    return drops


def check_golden(case):
    trace, budget, interval = case.trace, case.parameters["budget"], case.parameters["interval"]
    steps = oracle.run_periodic(
        trace, lambda view: oracle.golden(view, budget, interval), budget, interval, 0, interval, True
    )
    table = oracle.golden_block_scores(trace, budget, interval)
    for layer, head in itertools.product(range(trace.layers), range(trace.kv_heads)):
        drops = golden_by_lists(table[layer, head], budget, interval)
        assert len(drops) == len(steps)
        for (view, scores, kept), dropped in zip(steps, drops):
            assert sorted(np.setdiff1d(view.held[layer][head], kept[layer][head])) == sorted(dropped)
        for (before, earlier, _), (after, later, _) in zip(steps, steps[1:]):
            both, i, j = np.intersect1d(before.held[layer][head], after.held[layer][head], return_indices=True)
            assert (later.values[layer][head][j] <= earlier.values[layer][head][i]).all(), "the future only shrinks"


def redundancy_by_masks(keys, threshold, zero_first_column):
    """R-KV's redundancy without loops: the newest column above the threshold as a maximum of masked indices."""
    n = len(keys)
    unit = keys / (np.linalg.norm(keys, axis=1, keepdims=True) + 1e-8)
    similarity = (unit @ unit.T) * (1 - np.eye(n))
    above = similarity > threshold
    newest = (above * np.arange(n)).max(axis=1)
    clear = (np.arange(n)[None] == newest[:, None]) & (above.any(axis=1, keepdims=True) | zero_first_column)
    return oracle.softmax(np.where(clear, 0.0, similarity).sum(axis=0) / n)


def check_redundancy(case):
    keys = case.trace.k[0, 0, :64]
    for threshold, first in itertools.product((0.3, 0.5, 0.8), (False, True)):
        ours = oracle.r_kv_redundancy(keys, threshold, first)
        assert np.allclose(ours, redundancy_by_masks(keys, threshold, first), rtol=1e-12, atol=0)
    # Three keys, two of them almost the same: row 0 clears column 2, row 2 clears column 0, nothing is left.
    keys = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1e-9]])
    assert np.allclose(oracle.r_kv_redundancy(keys), 1 / 3)
    # Four keys, three of them the same: rows 0 and 1 clear column 3, row 3 clears column 1. Column 0 keeps two
    # similarities, column 1 keeps one, column 3 none.
    keys = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert np.allclose(oracle.r_kv_redundancy(keys), oracle.softmax(np.array([0.5, 0.25, 0.0, 0.0])))


def check_mass(case):
    """Accumulated attention against the definition: every query over the slots that were held when it ran."""
    trace, budget, interval = case.trace, case.parameters["budget"], case.parameters["interval"]
    steps = oracle.run_periodic(trace, oracle.h2o, budget, interval, 0, oracle.h2o_recent(budget))
    for layer, head in itertools.product(range(trace.layers), range(trace.kv_heads)):
        total, before = np.zeros(trace.tokens), 0
        for view, scores, _ in steps:
            slots = view.held[layer][head]
            weights = oracle.attention(trace, layer, head, np.arange(before, view.seen), slots)
            np.add.at(total, slots, weights.sum(axis=(0, 1)))
            assert np.allclose(scores.values[layer][head], total[slots], rtol=1e-12)
            before = view.seen


def check_ties():
    slots = np.array([2, 3, 5, 7, 11])
    same = np.zeros(5)
    assert list(oracle.keep_slots(same, slots, 2)) == [7, 11]
    assert list(oracle.keep_slots(same, slots, 3, sinks=3)) == [2, 7, 11]
    assert list(oracle.keep_slots(np.array([1.0, 0, 1, 0, 0]), slots, 3, recent=1)) == [2, 5, 11]
    held = [[np.array([0, 1]), np.array([0, 1])], [np.array([0, 1]), np.array([0, 1])]]
    scores = oracle.Scores([[np.zeros(2), np.zeros(2)], [np.zeros(2), np.zeros(2)]], None)
    per_layer = oracle.keep_over_heads(scores, held, 1)
    assert [[list(map(int, tokens)) for tokens in heads] for heads in per_layer] == [[[1], [1]], [[1], [1]]]
    scores.values[1][1][0] = 1.0  # the best of all; of the equal ones positions 1 of layer 0, head 0 first
    whole = oracle.keep_over_heads(scores, held, 1, whole_model=True)
    assert [[list(map(int, tokens)) for tokens in heads] for heads in whole] == [[[1], [1]], [[1], [0]]]


def check_small():
    assert np.allclose(oracle.average_pool(np.array([5.0, 0, 0, 10, 0])), [1, 3, 3, 2, 2])
    assert np.allclose(oracle.max_pool(np.array([-1.0, -5, -7, -2]), 3), [-1, -1, -2, -2])
    assert oracle.ada_kv_official_counts([10, 0, 5], 5) == [9, 1, 5]
    for layers, budget, fixed, slots in ((30, 256, 32, 1000), (4, 64, 12, 90), (1, 64, 12, 90), (7, 33, 8, 34)):
        exact, whole = oracle.pyramid_budgets(layers, budget, fixed, slots)
        assert sum(whole) == layers * budget and all(abs(a - b) < 1 for a, b in zip(exact, whole))
        assert max(whole) <= slots and min(whole) >= fixed and whole[0] == max(whole)


def main():
    check_ties()
    check_small()
    for name, parameters in make_policy_golden.CASES.items():
        case = make_policy_golden.Case(parameters)
        check_golden(case)
        check_redundancy(case)
        check_mass(case)
        print(f"{name}: golden eviction, R-KV's redundancy and H2O's mass agree with their second formulations")


if __name__ == "__main__":
    main()
