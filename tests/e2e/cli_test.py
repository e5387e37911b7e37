"""What `winnow generate` prints, on one rank and on several: answers, the account of the KV cache and of the work."""

import json
import os
import re
import socket
import unittest

from cli_case import TINY_HIDDEN, TINY_KV_HEADS, TINY_LAYERS, TINY_QUERY_HEADS, CliCase, main

SMOLLM2 = os.environ.get("WINNOW_MODEL")
PROMPT = "hello world, " * 20
EVICTING = ("--kv-budget", 64, "--kv-interval", 16, "--kv-recent-tokens", 16)
SAMPLED = ("--temperature", 1.2, "--seed", 7, "--ignore-eos")


def comparable(result):
    """A result without what may differ between rank counts: times, lists with a number per rank, collectives."""
    kept = {key: value for key, value in result.items() if key not in ("timing", "run")}
    kept["kv"] = {key: value for key, value in result["kv"].items() if not key.endswith("per_rank")}
    kept["work"] = {key: value for key, value in result["work"].items()
                    if not key.endswith("per_rank") and key != "collectives"}
    return kept


class Json(CliCase):
    def test_every_rank_count_gives_the_same_object(self):
        for policy in ("full", "streaming-llm", "random"):
            budget = () if policy == "full" else EVICTING
            results = [self.generate_json("--prompt", PROMPT, "--max-tokens", 24, *SAMPLED, "--kv-eviction", policy,
                                          *budget, np=np) for np in (None, 1, 2, 3)]
            for result in results[1:]:
                self.assertEqual(comparable(result), comparable(results[0]), policy)
            self.assertEqual([len(result["kv"]["peak_bytes_per_rank"]) for result in results], [1, 1, 2, 3])
            # Three heads that hold the same: two of them on one of two ranks, one on each of three.
            for result, imbalance in zip(results, (1, 1, 4 / 3, 1)):
                load = result["kv"]["load_per_rank"]
                self.assertAlmostEqual(load["end_imbalance"], imbalance, places=12)
                self.assertAlmostEqual(load["peak_imbalance"], imbalance, places=12)
                self.assertEqual(sum(load["end_entries"]), result["kv"]["kept_entries"])

    def test_results_say_which_rank_holds_more_where_heads_compete(self):
        result = self.generate_json("--prompt", PROMPT, "--max-tokens", 24, *SAMPLED, "--kv-eviction", "knorm",
                                    "--kv-allocation", "sequence", *EVICTING, np=3)
        load = result["kv"]["load_per_rank"]
        self.assertEqual(sum(load["end_entries"]), result["kv"]["kept_entries"])
        self.assertGreater(load["end_imbalance"], 1)
        self.assertAlmostEqual(load["end_imbalance"], max(load["end_entries"]) * 3 / sum(load["end_entries"]))
        for end, peak in zip(load["end_entries"], load["peak_entries"]):
            self.assertLessEqual(end, peak)
        table = self.generate("--prompt", PROMPT, "--max-tokens", 2, np=3).output
        self.assertRegex(table, r"KV entries per rank +[0-9, +]+ at the end \(imbalance 1.00\), [0-9, +]+ at most")

    def test_kept_sets_shared_by_heads_are_the_same_for_every_rank_count(self):
        for policy, scope in (("snapkv", "sequence"), ("h2o", "layer")):
            results = [self.generate_json("--prompt", PROMPT, "--max-tokens", 24, *SAMPLED, "--kv-eviction", policy,
                                          "--kv-scope", scope, *EVICTING, "--check-ranks", np=np)
                       for np in (1, 2, 3, 5)]
            for result in results:
                self.assertEqual(comparable(result), comparable(results[0]), policy)
                self.assertEqual((result["kv"]["policy"], result["kv"]["scope"]), (policy, scope))
                self.assertGreater(result["kv"]["evicted_entries"], 0)

    def test_an_object_has_every_key(self):
        result = self.generate_json("--prompt", PROMPT, "--max-tokens", 24, *SAMPLED, "--kv-eviction",
                                    "streaming-llm", *EVICTING)
        for key in ("text", "token_ids", "logprobs", "finish_reason", "kv", "hash", "timing", "work"):
            self.assertIn(key, result)
        for key in ("policy", "budget", "interval", "scope", "kept_entries", "evicted_entries", "full_entries",
                    "peak_bytes_per_rank", "pages_freed"):
            self.assertIn(key, result["kv"])
        self.assertEqual(list(result["hash"]), ["tokens", "kept"])
        self.assertEqual(len(result["token_ids"]), 24)
        self.assertEqual(len(result["logprobs"]), 24)
        self.assertTrue(all(logprob <= 0 for logprob in result["logprobs"]))
        self.assertEqual(result["finish_reason"], "length")
        self.assertEqual(result["usage"]["completion_tokens"], 24)

    def test_entries_add_up(self):
        for policy in ("full", "streaming-llm", "random"):
            kv = self.generate_json("--prompt", PROMPT, "--max-tokens", 24, "--ignore-eos", "--kv-eviction", policy,
                                    *(EVICTING if policy != "full" else ()))["kv"]
            self.assertEqual(kv["policy"], policy)
            self.assertEqual(kv["kept_entries"] + kv["evicted_entries"], kv["full_entries"])
            self.assertEqual(kv["full_entries"], kv["tokens_seen"] * TINY_LAYERS * TINY_KV_HEADS)
            if policy == "full":
                self.assertEqual((kv["evicted_entries"], kv["pages_freed"]), (0, 0))
            else:
                self.assertGreater(kv["evicted_entries"], 0)
                self.assertGreater(kv["pages_freed"], 0)
                self.assertEqual((kv["budget"], kv["interval"]), (64, 16))
                self.assertLess(kv["kept_entries"], (64 + 16) * TINY_LAYERS * TINY_KV_HEADS)

    def test_policy_full_has_no_budget_and_says_so(self):
        run = self.generate("--prompt", "abc", "--max-tokens", 2, "--kv-budget", 40, "--json")
        [result] = run.objects
        self.assertIsNone(result["kv"]["budget"])
        self.assertEqual(len(run.messages), 1, run.errors)
        self.assertRegex(run.messages[0], "full.*budget")

    def test_chunks_kernels_and_checks_change_nothing(self):
        ask = ("--prompt", PROMPT, "--max-tokens", 16, *SAMPLED, "--kv-eviction", "random", *EVICTING)
        plain = self.generate_json(*ask)
        for extra, np in ((("--max-num-batched-tokens", 7), None), (("--max-num-batched-tokens", 7), 2),
                          (("--cpu-kernels", "plain"), None), (("--backend", "guard", "--check-ranks"), 2),
                          (("--threads", 2), 1)):
            result = self.generate_json(*ask, *extra, np=np)
            for key in ("token_ids", "logprobs", "hash", "text"):
                self.assertEqual(result[key], plain[key], extra)

    def test_fast_numerics_run_on_two_ranks_that_agree(self):
        result = self.generate_json("--prompt", PROMPT, "--max-tokens", 24, *SAMPLED, "--numerics", "fast",
                                    "--check-ranks", "--kv-eviction", "random", *EVICTING, np=2)
        self.assertEqual(len(result["token_ids"]), 24)
        self.assertEqual(result["run"]["numerics"], "fast")


class Seeds(CliCase):
    ASK = ("--prompt", PROMPT, "--max-tokens", 24, "--temperature", 1.5, "--ignore-eos")

    def test_the_same_seed_repeats_a_run_and_another_does_not(self):
        one, again, other = (self.generate_json(*self.ask(seed)) for seed in (5, 5, 6))
        self.assertEqual(one["token_ids"], again["token_ids"])
        self.assertNotEqual(one["token_ids"], other["token_ids"])

    def test_a_drawn_seed_is_reported_and_repeats_the_run(self):
        drawn = self.generate_json(*self.ASK)
        seed = drawn["sampling"]["seed"]
        again = self.generate("--json", *self.ask(seed), np=2).objects[0]
        self.assertEqual(again["token_ids"], drawn["token_ids"])
        table = self.generate(*self.ask(seed)).output
        self.assertRegex(table, rf"\n  seed +{seed}\n")
        self.assertIn(drawn["hash"]["tokens"], table)

    def test_the_largest_seed_is_kept_whole(self):
        result = self.generate_json("--prompt", "a", "--max-tokens", 1, "--seed", 2**64 - 1)
        self.assertEqual(result["sampling"]["seed"], 2**64 - 1)

    def ask(self, seed):
        return (*self.ASK, "--seed", seed)


class Work(CliCase):
    ASK = ("--prompt", PROMPT, "--max-tokens", 12, "--ignore-eos", "--kv-eviction", "streaming-llm", *EVICTING)

    def check(self, alone, result, ranks, layers, hidden, kv_heads):
        work, one = result["work"], alone["work"]
        share = {2: [2 / 3, 1 / 3], 3: [1 / 3] * 3}[ranks]  # of the three KV heads
        self.assertEqual(sorted(kv_heads * part for part in share), sorted(round(kv_heads * part) for part in share))
        total = one["weight_bytes_per_rank"][0]
        self.assertLessEqual(abs(sum(work["weight_bytes_per_rank"]) - total), 0.05 * total)
        self.assertLessEqual(max(work["weight_bytes_per_rank"]), total * (0.05 + max(share)))
        flops = one["matmul_flops_per_rank"][0]
        self.assertLessEqual(abs(sum(work["matmul_flops_per_rank"]) - flops), 0.01 * flops)
        self.assertEqual(work["kv_peak_bytes_per_rank"],
                         [round(one["kv_peak_bytes_per_rank"][0] * part) for part in share])
        self.assertEqual(result["kv"]["peak_bytes_per_rank"],
                         [round(alone["kv"]["peak_bytes_per_rank"][0] * part) for part in share])
        collectives = work["collectives"]
        self.assertEqual(collectives["forward"]["calls"], work["steps"] * (1 + 2 * layers))
        self.assertEqual(collectives["forward"]["payload_bytes"],
                         work["rows"] * (4 * hidden + 16 * layers * (hidden + 1)))
        self.assertEqual(collectives["sampling"]["calls"], 2 * len(result["token_ids"]))  # one sequence: a token a step
        self.assertGreaterEqual(collectives["total"]["calls"],
                                collectives["forward"]["calls"] + collectives["sampling"]["calls"])

    def test_one_rank_has_nothing_to_send(self):
        for np in (None, 1):
            collectives = self.generate_json(*self.ASK, np=np)["work"]["collectives"]
            for part in ("forward", "sampling", "total"):
                self.assertEqual(collectives[part], {"calls": 0, "payload_bytes": 0})

    def test_ranks_share_weights_work_and_memory(self):
        alone = self.generate_json(*self.ASK)
        # Q4_1 attention and feed-forward, 20 bytes a block of 32, and a Q8_0 embedding: what the file itself holds.
        attention = TINY_LAYERS * TINY_HIDDEN * (2 * TINY_HIDDEN + 2 * TINY_KV_HEADS * 32) * 20 // 32
        rest = alone["work"]["weight_bytes_per_rank"][0] - attention
        for ranks, heads in ((2, [6, 3]), (3, [3, 3, 3])):
            result = self.generate_json(*self.ASK, np=ranks)
            self.check(alone, result, ranks, TINY_LAYERS, TINY_HIDDEN, TINY_KV_HEADS)
            for rank, bytes_of_rank in enumerate(result["work"]["weight_bytes_per_rank"]):
                fair = attention * heads[rank] / TINY_QUERY_HEADS + rest / ranks
                self.assertLessEqual(abs(bytes_of_rank - fair), 0.05 * fair, (ranks, rank))

    @unittest.skipUnless(SMOLLM2, "WINNOW_MODEL is not set")
    def test_a_real_model_shares_too_and_writes_the_same_text(self):
        ask = ("--prompt", "The river was " * 40, "--max-tokens", 8, "--seed", 1, "--ignore-eos", "--kv-eviction",
               "streaming-llm", *EVICTING)
        alone = self.generate_json(*ask, model=SMOLLM2)
        result = self.generate_json(*ask, model=SMOLLM2, np=2)
        self.assertEqual(comparable(result), comparable(alone))
        self.check(alone, result, 2, layers=30, hidden=576, kv_heads=3)


class Streaming(CliCase):
    def test_streams_whole_characters_and_then_the_table(self):
        ask = ("--prompt", PROMPT, "--max-tokens", 150, "--temperature", 1.5, "--seed", 3, "--ignore-eos",
               "--kv-eviction", "random", *EVICTING)
        result = self.generate_json(*ask)
        head = result["text"] + "\n\n"
        pieces = self.read_writes("generate", "-m", self.model, "--threads", 1, *ask)
        self.assertGreater(len(pieces), 100)  # token by token; some of the 150 wait for the rest of a character
        for output, ranks in (("".join(pieces), 1), (self.generate(*ask, np=2).output, 2)):
            self.assertTrue(output.startswith(head))
            self.check_table(output[len(head):], result, ranks)

    def read_writes(self, *arguments):
        """What every single write to standard output held: this kind of socket keeps them apart. Fails if a write does
        not end with a whole character."""
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with mine:
            with theirs:
                process = self.start(*arguments, stdout=theirs)
            pieces = []
            while piece := mine.recv(1 << 16):
                pieces.append(piece.decode())
        self.assertEqual(process.wait(), 0)
        return pieces

    def check_table(self, table, result, ranks):
        lines = dict(re.match(r"  (\S.*?)  +(\S.*)$", line).groups() for line in table.splitlines())
        kv = result["kv"]
        self.assertRegex(lines["prefill"], rf"^{result['usage']['prompt_tokens']} tokens, [0-9.]+ tokens/s$")
        self.assertRegex(lines["decode"], r"^150 tokens, [0-9.]+ tokens/s$")
        self.assertEqual(lines["KV entries full"], f"{kv['full_entries']:,}")
        self.assertEqual(lines["KV entries kept"].split()[0], f"{kv['kept_entries']:,}")
        self.assertEqual(lines["KV entries evicted"], f"{kv['evicted_entries']:,}")
        self.assertEqual(len(lines["KV peak bytes per rank"].split(" + ")), ranks)
        self.assertEqual(lines["KV pages freed"].split()[0], f"{kv['pages_freed']:,}")
        self.assertEqual(lines["policy"], "random (scope head, peak = budget + interval, positions = absolute)")
        self.assertRegex(lines["budget"], "^64 ")
        self.assertRegex(lines["ranks x threads"], rf"^{ranks} x 1 ")
        self.assertEqual(lines["hash of tokens"], result["hash"]["tokens"])
        self.assertEqual(lines["hash of kept sets"], result["hash"]["kept"])

    @unittest.skipUnless(SMOLLM2, "WINNOW_MODEL is not set")
    def test_a_real_model_streams_what_the_object_holds(self):
        ask = ("--prompt", "Flags of the world, as emoji: 🇩🇪 🇰🇷 🇫🇷", "--max-tokens", 24)
        text = self.generate_json(*ask, model=SMOLLM2)["text"]
        self.assertTrue(self.generate(*ask, model=SMOLLM2, np=2).output.startswith(text + "\n\n"))


class ManyPrompts(CliCase):
    def test_lines_bring_their_own_numbers(self):
        lines = [{"prompt": PROMPT, "max_tokens": 5, "temperature": 1.5, "top_k": 40, "seed": 11},
                 {"prompt": "hello", "max_tokens": 3, "kv_eviction": "full"},
                 {"prompt": PROMPT, "kv_eviction": "random", "kv_budget": 80, "kv_interval": 8,
                  "kv_scope": "layer", "kv_sink_tokens": 2, "kv_recent_tokens": 8, "top_p": 0.9, "min_p": 0.01}]
        path = self.write("p.jsonl", "\n\n".join(map(json.dumps, lines)))
        ask = ("--prompts", path, "--max-tokens", 9, "--ignore-eos", "--seed", 4, "--kv-eviction", "streaming-llm",
               *EVICTING, "--json")
        results = self.generate(*ask).objects
        self.assertEqual([len(result["token_ids"]) for result in results], [5, 3, 9])
        self.assertEqual([result["id"] for result in results], [0, 1, 2])
        self.assertEqual([result["kv"]["policy"] for result in results], ["streaming-llm", "full", "random"])
        self.assertEqual([result["kv"]["budget"] for result in results], [64, None, 80])
        self.assertEqual(results[2]["kv"]["scope"], "layer")
        self.assertEqual([result["sampling"]["seed"] for result in results], [11, 4, 4])
        self.assertEqual(results[2]["kv"]["sink_tokens"], 2)
        # Company and rank count change no answer.
        for other in (self.generate(*ask, np=2).objects, self.generate(*ask, "--max-num-seqs", 1).objects):
            for a, b in zip(results, other, strict=True):
                for key in ("token_ids", "logprobs", "hash", "text"):
                    self.assertEqual(a[key], b[key])

    def test_an_end_token_ends_a_text_unless_told_otherwise(self):
        path = self.write("seeds.jsonl", "".join(json.dumps({"prompt": "hello", "seed": seed}) + "\n"
                                                 for seed in range(16)))
        ask = ("--prompts", path, "--max-tokens", 150, "--temperature", 3, "--json")
        stopping = self.generate(*ask).objects
        going_on = self.generate(*ask, "--ignore-eos").objects
        self.assertEqual({result["finish_reason"] for result in stopping}, {"stop", "length"})
        self.assertEqual({result["finish_reason"] for result in going_on}, {"length"})
        for a, b in zip(stopping, going_on, strict=True):
            self.assertEqual(a["token_ids"], b["token_ids"][:len(a["token_ids"])])

    def test_answers_are_printed_one_after_the_other(self):
        path = self.write("two.jsonl", '{"prompt": "hello"}\n{"prompt": "world"}\n')
        output = self.generate("--prompts", path, "--max-tokens", 3, "--ignore-eos").output
        self.assertEqual(re.findall(r"^--- request (\d) \(length\)$", output, re.M), ["0", "1"])


if __name__ == "__main__":
    main()
