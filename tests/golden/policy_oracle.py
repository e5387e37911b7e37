"""Eviction policies in double precision: NumPy, plain loops where they read better, no speed.

Written from the papers and the project's specification ("spec" below: its pages on the baselines and on golden
eviction), by someone who had not read winnow's code, so that a mistake made there is not made here. Whoever changes a
formula here should go back to the paper, not to winnow.

Words. A *trace* is one text run through a full cache: queries, keys and values of every token. A *view* is a cache at
the moment of an eviction: which tokens each KV head of each layer still holds, oldest first ("slots"). A policy is a
function of a view that returns `Scores`: one float64 for each slot (higher is kept) and a mask of the slots to
which the method gives a score at all. `keep_per_head` and its siblings turn scores into kept sets under one tie rule:
higher score, then higher position, then lower layer, then lower KV head; protected slots are taken out first.

Shapes: L layers, Hq query heads, Hkv KV heads, G = Hq / Hkv, T tokens, D head size, n slots of one head. Query head g
belongs to KV head g // G. The scale of a logit is 1 / sqrt(D). Positions are those of the text, 0 .. T-1, and keys are
rotated by them.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np


@dataclass
class Trace:
    """One text, full cache. All arrays float64; keys and rotated queries carry their token's position."""

    q: np.ndarray  # [L, Hq, T, D] rotated
    q_unrotated: np.ndarray  # [L, Hq, T, D]
    k: np.ndarray  # [L, Hkv, T, D] rotated
    v: np.ndarray  # [L, Hkv, T, D]
    prompt_length: int
    inverse_frequencies: np.ndarray  # [D / 2]; pair f is dimensions (f, f + D / 2)
    w_o: np.ndarray = None  # [L, hidden, Hq * D], as in y = W_O x

    @property
    def layers(self):
        return self.k.shape[0]

    @property
    def kv_heads(self):
        return self.k.shape[1]

    @property
    def group(self):
        return self.q.shape[1] // self.k.shape[1]

    @property
    def tokens(self):
        return self.k.shape[2]

    @property
    def head_dim(self):
        return self.k.shape[3]

    def group_queries(self, layer, head, tokens):
        """Rotated queries [G, len(tokens), D] of the query heads that read KV head `head`."""
        return self.q[layer, head * self.group : (head + 1) * self.group][:, tokens]


@dataclass
class View:
    """A cache when an eviction is due. held[layer][head]: token indices, ascending. seen: tokens read so far.

    mass[layer][head][slot]: sum of softmax weights from all queries so far, those of evicted times included, over the
    query heads of the group. period_start: index of the first token that came after the previous eviction.
    """

    trace: Trace
    held: list
    seen: int
    mass: list = field(default_factory=list)
    period_start: int = 0


@dataclass
class Scores:
    values: list  # [layer][head] -> float64 [n]
    scored: list  # [layer][head] -> bool [n]; False: the method has no score here (its window, its sinks)


def full_view(trace, tokens=None):
    """Every head holds the first `tokens` tokens (all if None), nothing was evicted before."""
    count = trace.tokens if tokens is None else tokens
    held = [[np.arange(count) for _ in range(trace.kv_heads)] for _ in range(trace.layers)]
    view = View(trace, held, count)
    view.mass = [
        [attention(trace, layer, head, np.arange(count), slots).sum(axis=(0, 1)) for head, slots in enumerate(heads)]
        for layer, heads in enumerate(held)
    ]
    return view


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def attention(trace, layer, head, queries, slots):
    """Softmax weights [G, len(queries), len(slots)] over the slots no newer than the query; others are 0."""
    logits = trace.group_queries(layer, head, queries) @ trace.k[layer, head, slots].T / math.sqrt(trace.head_dim)
    visible = np.asarray(slots)[None, :] <= np.asarray(queries)[:, None]
    return softmax(np.where(visible[None], logits, -np.inf))


def rotate(x, positions, inverse_frequencies):
    """Rotates pairs (f, f + D/2) of x [..., n, D] by positions[n] * inverse_frequencies[f]."""
    angle = np.asarray(positions, dtype=np.float64)[:, None] * inverse_frequencies[None, :]
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], axis=-1)


def _score_heads(view, score_head):
    """Applies score_head(layer, head, slots) -> values or (values, scored) to every KV head."""
    values, scored = [], []
    for layer, heads in enumerate(view.held):
        values.append([])
        scored.append([])
        for head, slots in enumerate(heads):
            result = score_head(layer, head, slots)
            value, mask = result if isinstance(result, tuple) else (result, np.ones(len(slots), dtype=bool))
            values[-1].append(np.asarray(value, dtype=np.float64))
            scored[-1].append(mask)
    return Scores(values, scored)


def _window_queries(view, window):
    """The newest `window` tokens, but none from before the previous eviction."""
    return np.arange(max(view.seen - window, view.period_start, 0), view.seen)


# ---------------------------------------------------------------------------------------------------------- scores


def streaming_llm(view):
    """StreamingLLM: sinks and the newest tokens. Xiao et al., arXiv 2309.17453; spec baselines 2.

    score = position. keep_per_head(sinks = s) then gives exactly [0..s-1] ++ newest (B - s).
    Left open by the spec: nothing. Positions after the eviction: compacted_keys() gives the paper's form.
    """
    return _score_heads(view, lambda layer, head, slots: slots.astype(np.float64))


def compacted_keys(trace, layer, head, slots):
    """Keys of the held slots as the StreamingLLM paper reads them: rotated by slot index 0..n-1, not by position.

    A key that was rotated by p is turned on by (slot - p). The newest query is then rotated by its own slot, n - 1.
    Spec baselines 2.
    """
    slots = np.asarray(slots)
    return rotate(trace.k[layer, head, slots], np.arange(len(slots)) - slots, trace.inverse_frequencies)


def h2o(view):
    """H2O: attention received so far. Zhang et al., arXiv 2306.14048; spec baselines 3.

    S_i = sum over all queries processed so far and over the G query heads of the group. A query's weights are over the
    slots held when it ran; an evicted slot loses its score; a token's own query counts.
    Left open by the spec: sum or mean over the group (sum; the order is the same). The budget split B/2 recent + B/2
    heavy is `h2o_recent`, with floor(B/2) recent where B is odd.
    """
    return _score_heads(view, lambda layer, head, slots: view.mass[layer][head])


def h2o_recent(budget, recent=0):
    return max(budget // 2, recent)


def observed_attention(view):
    """kvpress's relative of H2O: S_i divided by the number of queries that could see i, mean over the group.

    Spec baselines 3, last paragraph. For a cache that was never evicted from.
    """
    return _score_heads(
        view, lambda layer, head, slots: view.mass[layer][head] / (view.seen - slots) / view.trace.group
    )


def tova(view):
    """TOVA: attention of the newest query. Oren et al., arXiv 2401.06104; spec baselines 6.

    s_i = mean over ALL query heads of the layer of A[newest query, i]: one set for all heads of a layer, so all of
    them must hold the same slots. Softmax over all held slots.
    Left open by the spec: whether the newest token can be dropped (it is scored like others; recent >= 1 protects it).
    """
    rows = []
    for layer, heads in enumerate(view.held):
        for slots in heads[1:]:
            assert np.array_equal(slots, heads[0]), "TOVA shares one set in a layer"
        rows.append(
            np.mean(
                [
                    attention(view.trace, layer, head, [view.seen - 1], slots)[:, 0].mean(axis=0)
                    for head, slots in enumerate(heads)
                ],
                axis=0,
            )
        )
    return _score_heads(view, lambda layer, head, slots: rows[layer])


def average_pool(x, kernel=5):
    """1-D average, stride 1, zeros beyond both ends, always divided by `kernel`."""
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(kernel // 2, kernel // 2)])
    return sum(padded[..., i : i + x.shape[-1]] for i in range(kernel)) / kernel


def max_pool(x, kernel=7):
    """1-D maximum, stride 1, -inf beyond both ends."""
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(kernel // 2, kernel // 2)], constant_values=-np.inf)
    return np.max([padded[..., i : i + x.shape[-1]] for i in range(kernel)], axis=0)


def _prefix(slots, view, window):
    return slots < view.seen - window


def snapkv(view, window=32, kernel=5, over_group=np.sum):
    """SnapKV at every eviction: votes of the observation window. Li et al., arXiv 2404.14469; spec baselines 4.

    The newest `window` tokens are always kept and have no score. For the slots before them: A over ALL held slots
    (causal inside the window), mean over the window's queries, average pool over the prefix slots, sum over the group.
    Left open by the spec: neighbours are neighbouring SLOTS, not positions, and the pool does see sinks, although
    these are protected; queries from before the previous eviction do not vote (they saw another cache), so that an
    interval shorter than the window means fewer voters, over whose number the mean is taken.
    """

    def score(layer, head, slots):
        prefix = _prefix(slots, view, window)
        votes = attention(view.trace, layer, head, _window_queries(view, window), slots).mean(axis=1)[:, prefix]
        values = np.zeros(len(slots))
        values[prefix] = over_group(average_pool(votes, kernel), axis=0)
        return values, prefix

    return _score_heads(view, score)


def snapkv_prefill(view, window=32, kernel=5):
    """SnapKV as published: once, when the prompt has been read. arXiv 2404.14469; spec baselines 4.

    As snapkv() on a view that holds the whole prompt, mean over the group (kvpress) instead of the official
    per-query-head sets, which would save nothing under grouped queries. A prompt shorter than the budget is left alone.
    """
    assert view.seen == view.trace.prompt_length and view.period_start == 0
    return snapkv(view, window, kernel, over_group=np.mean)


def r_kv_importance(view, layer, head, slots, window=8, kernel=7):
    """The decoding form of SnapKV's vote that R-KV uses. Spec baselines 4 (DEC-p variant) and 5.

    Raw logits of the window's queries (scaled), maximum over the group, softmax over the slots before the window ONLY,
    mean over the queries, max pool.
    """
    prefix = _prefix(slots, view, window)
    queries = view.trace.group_queries(layer, head, _window_queries(view, window))
    logits = queries @ view.trace.k[layer, head, slots[prefix]].T / math.sqrt(view.trace.head_dim)
    return max_pool(softmax(logits.max(axis=0)).mean(axis=0), kernel)


def r_kv_redundancy(keys, threshold=0.5, zero_first_column=False):
    """R-KV's redundancy of each of n rotated keys [n, D]. Cai et al., arXiv 2505.24133; spec baselines 5.

    C = cosine similarities (norms + 1e-8), zero diagonal. In each row the newest column above `threshold` is set to 0.
    R = softmax over all n columns (window included) of the mean over rows.
    zero_first_column: the public code's detail: a row without any column above the threshold has column 0 set to 0,
    which lowers the redundancy of the first token and so protects it.
    """
    unit = keys / (np.linalg.norm(keys, axis=1, keepdims=True) + 1e-8)
    similarity = unit @ unit.T
    np.fill_diagonal(similarity, 0.0)
    for row in range(len(keys)):
        near = np.flatnonzero(similarity[row] > threshold)
        if len(near):
            similarity[row, near[-1]] = 0.0
        elif zero_first_column:
            similarity[row, 0] = 0.0
    return softmax(similarity.mean(axis=0))


def r_kv(view, window=8, kernel=7, weight=0.1, threshold=0.5, zero_first_column=False):
    """R-KV: important and not redundant. Cai et al., arXiv 2505.24133; spec baselines 5.

    Z_i = weight * I_i - (1 - weight) * R_i for slots before the window; the window is kept.
    Left open by the spec: mean or sum over the window's queries (mean); the softmax of R includes the window's columns,
    and its rows are part of the mean.
    """

    def score(layer, head, slots):
        prefix = _prefix(slots, view, window)
        redundancy = r_kv_redundancy(view.trace.k[layer, head, slots], threshold, zero_first_column)
        values = np.zeros(len(slots))
        values[prefix] = (
            weight * r_kv_importance(view, layer, head, slots, window, kernel) - (1 - weight) * redundancy[prefix]
        )
        return values, prefix

    return _score_heads(view, score)


def keydiff(view):
    """KeyDiff: distinctive keys. Park et al., arXiv 2504.15364; spec baselines 13.

    anchor = mean over all held slots of k / ||k||; s_i = -cos(k_i, anchor), rotated keys.
    Left open by the spec: a key of norm 0 adds nothing to the anchor and has cosine 0; protected slots are part of
    the anchor.
    """

    def score(layer, head, slots):
        keys = view.trace.k[layer, head, slots]
        norms = np.linalg.norm(keys, axis=1, keepdims=True)
        unit = np.divide(keys, norms, out=np.zeros_like(keys), where=norms > 0)
        anchor = unit.mean(axis=0)
        length = np.linalg.norm(anchor)
        return -(unit @ anchor) / length if length > 0 else np.zeros(len(slots))

    return _score_heads(view, score)


def knorm(view):
    """Knorm: small keys are kept, s_i = -||k_i||. Devoto et al., arXiv 2406.11430; spec baselines 19."""
    return _score_heads(view, lambda layer, head, slots: -np.linalg.norm(view.trace.k[layer, head, slots], axis=1))


def mean_rotation(trace, first, count):
    """Mean of the rotations of positions first .. first+count-1 as a D x D matrix."""
    identity = np.eye(trace.head_dim)
    return np.mean(
        [rotate(identity, np.full(trace.head_dim, first + i), trace.inverse_frequencies).T for i in range(count)],
        axis=0,
    )


def expected_attention(view, skip=4, future=512, epsilon=0.0, query_window=None):
    """Expected Attention: what queries like those so far will look at. arXiv 2510.00636; spec baselines 12.

    Mean and covariance (divided by the count) of each query head's UNROTATED queries, turned by the mean rotation of
    the next `future` positions; z_i = mu'.k_i / sqrt(D) + k_i' Sigma' k_i / (2 D); a = softmax(z);
    s_i = (mean over the group of a_i + epsilon) * ||v_i||.
    Left open by the spec: the softmax runs over slots whose position is >= skip (the pinned sinks get no score);
    statistics take the newest `query_window` tokens (None: all), never those before position `skip`; "the next
    positions" start at the number of tokens SEEN, not held.
    """
    trace = view.trace
    queries = np.arange(max(skip, view.seen - (query_window or view.seen)), view.seen)
    rotation = mean_rotation(trace, view.seen, future)

    def score(layer, head, slots):
        candidates = slots >= skip
        keys = trace.k[layer, head, slots[candidates]]
        weights = []
        for g in range(head * trace.group, (head + 1) * trace.group):
            x = trace.q_unrotated[layer, g, queries]
            mean = x.mean(axis=0)
            covariance = (x - mean).T @ (x - mean) / len(queries)
            mean, covariance = rotation @ mean, rotation @ covariance @ rotation.T
            z = keys @ mean / math.sqrt(trace.head_dim)
            weights.append(softmax(z + np.einsum("nd,de,ne->n", keys, covariance, keys) / (2 * trace.head_dim)))
        values = np.zeros(len(slots))
        values[candidates] = (np.mean(weights, axis=0) + epsilon) * np.linalg.norm(
            trace.v[layer, head, slots[candidates]], axis=1
        )
        return values, candidates

    return _score_heads(view, score)


def kvzip(trace, replays, sinks=4, plus=False):
    """KVzip and KVzip+: attention while the context is repeated. arXiv 2505.23416, 2601.07891; spec baselines 14.

    replays: a list of dicts, one for each chunk of the context: "start", "end" (tokens of the chunk), "q" [L, Hq, m, D]
    and "k" [L, Hkv, m, D] of the replay input (rotated by the positions it had), "hidden" [L, m, hidden] its
    attention input after the norm (plus only). The context is the prompt.
    Each query of the replay attends to [sinks | chunk | replay tokens up to itself]; s_i = max over the group and over
    all queries. plus: A[q, i] * ||W_O^g v_i||_2 / ||h_q||_2 before the maximum.
    Left open by the spec: slots that are both sinks and part of the chunk count once; sinks have score 1 in both
    variants but are marked as not scored, since they are protected (a KVzip+ score can exceed 1).
    """
    context = trace.prompt_length
    values = np.zeros((trace.layers, trace.kv_heads, context))
    for replay in replays:
        chunk = np.arange(replay["start"], replay["end"])
        cached = np.concatenate([np.arange(min(sinks, replay["start"])), chunk])
        length = replay["q"].shape[2]
        visible = np.concatenate([np.ones((length, len(cached)), dtype=bool), np.tri(length, dtype=bool)], axis=1)
        for layer in range(trace.layers):
            for head in range(trace.kv_heads):
                keys = np.concatenate([trace.k[layer, head, cached], replay["k"][layer, head]])
                best = np.zeros(len(chunk))
                for g in range(head * trace.group, (head + 1) * trace.group):
                    logits = replay["q"][layer, g] @ keys.T / math.sqrt(trace.head_dim)
                    weights = softmax(np.where(visible, logits, -np.inf))[:, len(cached) - len(chunk) : len(cached)]
                    if plus:
                        w_o = trace.w_o[layer][:, g * trace.head_dim : (g + 1) * trace.head_dim]
                        written = np.linalg.norm(trace.v[layer, head, chunk] @ w_o.T, axis=1)
                        weights = weights * written[None, :] / np.linalg.norm(replay["hidden"][layer], axis=1)[:, None]
                    best = np.maximum(best, weights.max(axis=0))
                values[layer, head, chunk] = best
    values[:, :, :sinks] = 1.0
    scored = [[np.arange(context) >= sinks for _ in range(trace.kv_heads)] for _ in range(trace.layers)]
    return Scores([list(heads) for heads in values], scored)


def golden_block_scores(trace, budget, interval):
    """abar [L, Hkv, T, M]: full-cache attention to each token by the blocks of queries after the first eviction.

    Spec golden eviction 5.1. Block j holds the queries budget + interval + j * interval and on; mean over its queries
    and the group, a last block that is not full is divided by `interval` all the same.
    Left open by the spec: a budget that is no multiple of the interval; the first block then still starts at
    budget + interval.
    """
    starts = range(budget + interval, trace.tokens, interval)
    table = np.zeros((trace.layers, trace.kv_heads, trace.tokens, len(starts)))
    everything = np.arange(trace.tokens)
    for layer in range(trace.layers):
        for head in range(trace.kv_heads):
            for j, start in enumerate(starts):
                queries = np.arange(start, min(start + interval, trace.tokens))
                table[layer, head, :, j] = attention(trace, layer, head, queries, everything).sum(axis=(0, 1)) / (
                    trace.group * interval
                )
    return table


def golden(view, budget, interval):
    """Golden eviction: the attention a token will still receive. ForesightKV, arXiv 2602.03203; spec golden 5.2, 5.3.

    alpha_i = max over the blocks after this eviction of abar. Keep the highest; with recent = interval the candidates
    are the `budget` oldest slots, of which `interval` go. Ties: the lower position goes first (the general rule).
    """
    step = (view.seen - budget - interval) // interval
    future = golden_block_scores(view.trace, budget, interval)[..., step:]
    assert future.shape[-1] > 0, "nothing follows: the spec evicts only if at least one token comes after"
    return _score_heads(view, lambda layer, head, slots: future[layer, head, slots].max(axis=-1))


def random_candidates(view, recent=0, sinks=0):
    """Random with the whole prompt pinned. Random Attention, arXiv 2609.03430; spec baselines 18.

    Which slots may be drawn to go: generated tokens that are not among the newest `recent`. Only the mask is meant
    (scores are 0): numbers are drawn by winnow's own generator.
    """

    def score(layer, head, slots):
        return np.zeros(len(slots)), (
            (slots >= max(view.trace.prompt_length, sinks)) & (np.arange(len(slots)) < len(slots) - recent)
        )

    return _score_heads(view, score)


# ------------------------------------------------------------------------------------------------------- kept sets


def protected(slots, sinks, recent):
    """Slots that are kept whatever their score: positions below `sinks`, and the newest `recent` slots."""
    return (slots < sinks) | (np.arange(len(slots)) >= len(slots) - recent)


def _take(entries, count):
    """The best `count` of (score, position, layer, head) under the one tie rule."""
    return sorted(entries, key=lambda entry: (-entry[0], -entry[1], entry[2], entry[3]))[:count]


def keep_slots(values, slots, budget, sinks=0, recent=0):
    """Kept tokens of one head, ascending: the protected ones, then the best of the rest up to `budget`."""
    fixed = protected(slots, sinks, recent)
    assert fixed.sum() <= budget, f"budget {budget} cannot hold {fixed.sum()} protected slots"
    rest = [(values[i], slots[i], 0, 0) for i in range(len(slots)) if not fixed[i]]
    return np.array(sorted(list(slots[fixed]) + [entry[1] for entry in _take(rest, budget - fixed.sum())]))


def keep_per_head(scores, held, budgets, sinks=0, recent=0):
    """[layer][head] kept tokens; budgets: one number, or one for each layer."""
    budgets = budgets if np.ndim(budgets) else [budgets] * len(held)
    return [
        [
            keep_slots(scores.values[layer][head], slots, budgets[layer], sinks, recent)
            for head, slots in enumerate(heads)
        ]
        for layer, heads in enumerate(held)
    ]


def keep_over_heads(scores, held, budget, sinks=0, recent=0, whole_model=False, floor=0):
    """Budgets shared by the heads of a layer (or of the whole model): the best of all their slots together.

    Protected slots of every head are kept and count. floor: each head's own best `floor` candidates are kept first,
    the shared order fills the rest. Total = heads * budget, exactly.
    """
    kept = [[list(slots[protected(slots, sinks, recent)]) for slots in heads] for heads in held]
    candidates = [
        [
            (scores.values[layer][head][i], slots[i], layer, head)
            for i in range(len(slots))
            if not protected(slots, sinks, recent)[i]
        ]
        for layer, heads in enumerate(held)
        for head, slots in enumerate(heads)
    ]
    layers = [range(len(held))] if whole_model else [[layer] for layer in range(len(held))]
    for shared in layers:
        entries, taken = [], 0
        for own in candidates:
            if own and own[0][2] in shared:
                best = _take(own, floor)
                taken += len(best)
                for entry in best:
                    kept[entry[2]][entry[3]].append(entry[1])
                entries += [entry for entry in own if entry not in best]
        total = sum(len(held[layer]) for layer in shared) * budget
        total -= sum(protected(slots, sinks, recent).sum() for layer in shared for slots in held[layer])
        assert total >= taken
        for entry in _take(entries, total - taken):
            kept[entry[2]][entry[3]].append(entry[1])
    return [[np.array(sorted(tokens)) for tokens in heads] for heads in kept]


def ada_kv(scores, held, budget, sinks=0, recent=0, alpha=0.2):
    """Ada-KV around any scores: heads of a layer share their budget. Feng et al., arXiv 2407.11550; spec baselines 8.

    With b = budget minus the protected slots of a head: the floor(alpha * b) best of each head are kept, then the best
    of all heads' remaining candidates until the layer holds Hkv * budget. This is the form of the spec's page on tensor
    parallelism (floor entries get the highest key before the shared selection).
    Left open by the spec: whether protected slots are part of b (no).
    """
    fixed = max(protected(slots, sinks, recent).sum() for heads in held for slots in heads)
    return keep_over_heads(scores, held, budget, sinks, recent, floor=math.floor(alpha * (budget - fixed)))


def ada_kv_official_counts(counts, free_budget, alpha=0.2):
    """The official repository's other safeguard: candidates per head from those of the unguarded shared selection.

    c_h <- round(c_h * (1 - alpha)) + floor(alpha * b); ties of the rounding go to even (Python). Spec baselines 8.
    Totals may be off by the rounding, which is why winnow's form is ada_kv().
    """
    return [round(count * (1 - alpha)) + math.floor(alpha * free_budget) for count in counts]


def pyramid_budgets(layers, budget, fixed, slots, beta=20):
    """PyramidKV's static budgets. Cai et al., arXiv 2406.02069; spec baselines 7. Returns (exact, whole) lists.

    fixed = f slots are kept anyway: the window, and sinks where they are protected. b = budget - f, low = b / beta,
    high = 2 b - low; where high > n - f: high = n - f, low = 2 b - high. Layer l gets
    high - l (high - low) / (layers - 1) + f; the mean is `budget`.
    Left open by the spec: sinks (its f is the window alone; the last layers could then not hold both); rounding:
    running sums are rounded half up, so that the total is layers * budget exactly and each layer is less than 1 away
    from its exact value; one layer alone gets `budget`.
    """
    free = Fraction(budget - fixed)
    low = free / beta
    high = 2 * free - low
    if high > slots - fixed:
        high = Fraction(slots - fixed)
        low = 2 * free - high
    exact = [Fraction(budget)]
    if layers > 1:
        exact = [high - layer * (high - low) / (layers - 1) + fixed for layer in range(layers)]
    whole, before = [], 0
    for layer in range(layers):
        after = math.floor(sum(exact[: layer + 1]) + Fraction(1, 2))
        whole.append(after - before)
        before = after
    return [float(value) for value in exact], whole


# --------------------------------------------------------------------------------------------------------- process


def run_periodic(trace, policy, budget, interval, sinks=0, recent=0, needs_future=False):
    """Feeds the trace token by token; when heads hold budget + interval slots, policy(view) scores and `interval` go.

    Queries, keys and values are those of the trace whatever was evicted: this follows the bookkeeping of evictions,
    not a model. needs_future: no eviction after the last token. Returns a list of (view, scores, kept).
    """
    shape = [(layer, head) for layer in range(trace.layers) for head in range(trace.kv_heads)]
    held = {key: np.arange(0) for key in shape}
    mass = {key: np.zeros(0) for key in shape}
    steps, period_start = [], 0
    for token in range(trace.tokens):
        for key in shape:
            held[key] = np.append(held[key], token)
            mass[key] = np.append(mass[key], 0.0) + attention(trace, *key, [token], held[key]).sum(axis=(0, 1))
        if len(held[shape[0]]) < budget + interval or (needs_future and token + 1 == trace.tokens):
            continue

        def by_head(table):
            return [[table[layer, head] for head in range(trace.kv_heads)] for layer in range(trace.layers)]

        view = View(trace, by_head(held), token + 1, by_head(mass), period_start)
        scores = policy(view)
        kept = keep_per_head(scores, view.held, budget, sinks, recent)
        for layer, head in shape:
            survivors = np.isin(held[layer, head], kept[layer][head])
            mass[layer, head] = mass[layer, head][survivors]
            held[layer, head] = kept[layer][head]
        steps.append((view, scores, kept))
        period_start = token + 1
    return steps
