"""Budgets and memory as a user gives them: tokens, a ratio or bytes; the KV bill before it is paid; pools that are too
small; what the results say of a policy's timing."""

import json
import re
import unittest

from cli_case import TINY_HIDDEN, TINY_KV_HEADS, TINY_LAYERS, TINY_QUERY_HEADS, CliCase, main

PROMPT = "xyz " * 65
PROMPT_TOKENS = len(PROMPT)  # of these letters every byte is a token
HEADS = TINY_LAYERS * TINY_KV_HEADS
ENTRY_BYTES = 2 * 2 * TINY_HIDDEN // TINY_QUERY_HEADS  # key and value in bf16
PAGE_ROW_BYTES = 16 * HEADS * ENTRY_BYTES  # a page for every head
RANDOM = ("--kv-eviction", "random", "--kv-interval", 16, "--kv-recent-tokens", 16)
SECONDS = 20  # far above what a refusal takes: the machine may be busy


class BudgetCase(CliCase):
    def ask(self, *arguments):
        return ("--prompt", PROMPT, "--max-tokens", 24, "--ignore-eos", "--seed", 5, *arguments)

    def refuse(self, parts, *arguments, model=None, np=None):
        run = self.run_winnow("generate", "-m", model or self.model, "--threads", 1, *arguments, np=np)
        self.assertEqual(run.code, 2, run.errors)
        for part in parts:
            self.assertIn(part, run.messages[-1])
        self.assertLess(run.seconds, SECONDS)
        return run.messages[-1]


class Budgets(BudgetCase):
    """In the field a ratio was all that could be given, so that results at 128 or 512 kept tokens could not be repeated;
    or a size was per rank, and another rank count was another experiment."""

    def test_bytes_are_of_the_sequence_over_all_ranks_whatever_their_number(self):
        asked = (HEADS * 70 + 5) * ENTRY_BYTES + 3
        results = [self.generate_json(*self.ask(*RANDOM, "--kv-budget-bytes", asked, "--check-ranks"), np=np)
                   for np in (1, 2, 3)]
        for result in results:
            kv = result["kv"]
            self.assertEqual((kv["budget"], kv["larger_heads"], kv["asked"]), (70, 5, {"bytes": asked}))
            self.assertGreater(kv["evicted_entries"], 0)
            self.assertEqual(result["hash"], results[0]["hash"])
            self.assertEqual(result["logprobs"], results[0]["logprobs"])
        in_float = self.generate_json(*self.ask(*RANDOM, "--kv-budget-bytes", asked, "--kv-cache-dtype", "f32"))
        self.assertEqual((in_float["kv"]["budget"], in_float["kv"]["larger_heads"]), (35, 2))

    def test_a_ratio_is_of_a_full_cache_of_the_prompt(self):
        for np in (None, 2):
            kv = self.generate_json(*self.ask(*RANDOM, "--kv-ratio", 0.25), np=np)["kv"]
            self.assertEqual(kv["budget"] * HEADS + kv["larger_heads"], PROMPT_TOKENS * HEADS // 4)
            self.assertEqual(kv["asked"], {"ratio": 0.25})
        table = self.generate(*self.ask(*RANDOM, "--kv-ratio", 0.25)).output
        self.assertRegex(table, r"\n  budget +65 tokens a KV head \(ratio 0.25 of the prompt\), evicting every 16\n")

    def test_tokens_ratio_and_bytes_that_mean_the_same_give_the_same_answer(self):
        ways = (("--kv-budget", 65), ("--kv-ratio", 0.25), ("--kv-budget-bytes", 65 * HEADS * ENTRY_BYTES))
        results = [self.generate_json(*self.ask(*RANDOM, *way)) for way in ways]
        for result in results[1:]:
            self.assertEqual(result["hash"], results[0]["hash"])

    def test_two_budgets_are_refused_with_both_names(self):
        ways = {"--kv-budget": 64, "--kv-ratio": 0.5, "--kv-budget-bytes": 100000}
        for one, other in (("--kv-budget", "--kv-ratio"), ("--kv-budget", "--kv-budget-bytes"),
                           ("--kv-ratio", "--kv-budget-bytes")):
            for np in (None, 2):
                self.refuse([one, other], *self.ask(*RANDOM, one, ways[one], other, ways[other]), np=np)
        path = self.write("two.jsonl", json.dumps({"prompt": PROMPT, "kv_ratio": 0.5, "kv_budget": 64}))
        self.refuse(["two.jsonl line 1", "kv_ratio", "kv_budget"], "--prompts", path, *RANDOM)

    def test_a_line_brings_a_budget_in_any_form_over_the_flags(self):
        lines = [{"prompt": PROMPT}, {"prompt": PROMPT, "kv_ratio": 0.5},
                 {"prompt": PROMPT, "kv_budget_bytes": 50 * HEADS * ENTRY_BYTES},
                 {"prompt": "hi", "kv_budget": 300, "kv_protect_prompt": True}]
        path = self.write("forms.jsonl", "\n".join(map(json.dumps, lines)))
        for flag in (("--kv-budget", 65), ("--kv-ratio", 0.25)):
            results = self.generate("--prompts", path, "--max-tokens", 4, *RANDOM, *flag, "--json").objects
            self.assertEqual([result["kv"]["budget"] for result in results], [65, 130, 50, 300])
            self.assertEqual([result["kv"]["protect_prompt"] for result in results], [False] * 3 + [True])

    def test_numbers_that_are_no_budget_are_refused(self):
        for text in ("0", "-0.5", "1.5", "nan", "inf"):
            self.refuse(["--kv-ratio", text], *self.ask(*RANDOM, "--kv-ratio", text))
        self.refuse(["--kv-ratio 0.001", "6 KV heads"], *self.ask(*RANDOM, "--kv-ratio", "0.001"))
        self.refuse(["--kv-budget-bytes", "-1"], *self.ask(*RANDOM, "--kv-budget-bytes", -1))
        self.refuse(["--kv-budget-bytes 700", "6 KV heads", f"{ENTRY_BYTES} bytes"],
                    *self.ask(*RANDOM, "--kv-budget-bytes", 700))
        self.refuse(["--kv-budget 5000", "4096"], *self.ask(*RANDOM, "--kv-budget", 5000))
        self.refuse(["--kv-budget-bytes 9000000000000000000", "4096"],
                    *self.ask(*RANDOM, "--kv-budget-bytes", 9 * 10**18))
        self.refuse(["--kv-cache-memory-bytes", "0"], *self.ask("--kv-cache-memory-bytes", 0))

    def test_a_protected_prompt_stays_under_random_eviction_or_is_refused(self):
        protect = (*RANDOM, "--kv-protect-prompt")
        self.refuse(["--kv-budget 270", f"{PROMPT_TOKENS} prompt + 16 recent"], *self.ask(*protect, "--kv-budget", 270))
        budget = PROMPT_TOKENS + 16
        asks = [("--prompt", PROMPT, "--max-tokens", 60, "--ignore-eos", "--seed", 5, *protect, "--kv-budget", budget)
                for _ in (1, 2)]
        results = [self.generate_json(*ask, np=np) for ask, np in zip(asks, (None, 2))]
        for result in results:
            self.assertTrue(result["kv"]["protect_prompt"])
            self.assertGreater(result["kv"]["evicted_entries"], 0)
            self.assertEqual(result["hash"], results[0]["hash"])


class Timing(BudgetCase):
    def test_results_say_what_peaks_and_where_survivors_stand(self):
        for policy, peak in (("streaming-llm", "budget + interval"), ("snapkv", "budget + interval"),
                             ("snapkv-prefill", "prompt")):
            ask = self.ask("--kv-eviction", policy, "--kv-budget", 64)
            kv = self.generate_json(*ask)["kv"]
            self.assertEqual((kv["peak"], kv["positions"]), (peak, "absolute"))
            self.assertEqual(kv["interval"], None if peak == "prompt" else 128)
            self.assertIn(f"{policy} (scope head, peak = {peak}, positions = absolute)", self.generate(*ask).output)
        self.assertIsNone(self.generate_json(*self.ask())["kv"]["peak"])

    def test_a_policy_that_acts_after_the_prompt_holds_all_of_it_once(self):
        ask = self.ask("--kv-budget", 64, "--kv-interval", 16)
        chunked = self.generate_json(*ask, "--kv-eviction", "snapkv")["kv"]["peak_bytes_per_rank"]
        whole = self.generate_json(*ask, "--kv-eviction", "snapkv-prefill")["kv"]["peak_bytes_per_rank"]
        self.assertEqual(chunked, [(64 + 16) // 16 * PAGE_ROW_BYTES])
        self.assertEqual(whole, [-(-PROMPT_TOKENS // 16) * PAGE_ROW_BYTES])

    def test_flags_that_do_nothing_are_noted(self):
        for eviction, parts in (((), ["full", "--kv-interval", "not used"]),
                                (("--kv-eviction", "snapkv-prefill", "--kv-budget", 64),
                                 ["snapkv-prefill", "--kv-interval", "not used"])):
            run = self.generate(*self.ask(*eviction, "--kv-interval", 32))
            self.assertEqual(len(run.messages), 1, run.errors)
            for part in parts:
                self.assertIn(part, run.messages[0])
        run = self.generate(*self.ask("--kv-eviction", "snapkv-prefill", "--kv-budget", 64))
        self.assertEqual(run.messages, [])

    def test_a_seed_is_shown_where_something_was_drawn(self):
        shown = r"\n  seed +5\n"
        self.assertNotRegex(self.generate(*self.ask()).output, shown)
        self.assertNotRegex(self.generate(*self.ask("--kv-eviction", "h2o", "--kv-budget", 80)).output, shown)
        self.assertRegex(self.generate(*self.ask(*RANDOM, "--kv-budget", 80)).output, shown)
        self.assertRegex(self.generate(*self.ask("--temperature", 1)).output, shown)


class Pools(BudgetCase):
    def test_the_bill_of_every_rank_is_shown_before_it_is_paid(self):
        for np, shares in ((None, [3]), (2, [2, 1]), (3, [1, 1, 1])):
            run = self.generate(*self.ask(*RANDOM, "--kv-budget", 64), np=np)
            row = 5 * 16 * TINY_LAYERS * ENTRY_BYTES  # budget + interval are 5 pages
            self.assertEqual(run.bill, [share * row for share in shares])

    def test_a_long_context_of_the_model_costs_nothing_until_it_is_used(self):
        """In the field the cache of a 131,072-token default context dwarfed the weights of a small model."""
        model = self.make_model("long.gguf", 9, 3, 131072)
        run = self.generate("--prompt", "hello", "--max-tokens", 4, model=model)
        self.assertEqual(run.bill, [PAGE_ROW_BYTES])

    def test_a_pool_that_is_too_small_is_refused_with_a_context_that_then_starts(self):
        """In the field the start hung, or named a knob without a number, or a number that did not start either."""
        model = self.make_model("long.gguf", 9, 3, 32768)
        pool = ("--kv-cache-memory-bytes", 1 << 20)
        ask = ("--prompt", "xyz ", "--max-tokens", 32000, "--ignore-eos", *pool)
        for np, heads in ((None, 3), (2, 2), (3, 1)):
            row = 16 * heads * TINY_LAYERS * ENTRY_BYTES
            needed = -(-(4 + 32000 - 1) // 16) * row
            message = self.refuse([f"needs {needed} bytes", "1048576", "rank 0", "--kv-cache-memory-bytes"], *ask,
                                  model=model, np=np)
            [largest] = re.findall("largest --max-model-len that fits is ([0-9]+)", message)
            # The last token is never fed back, so that it needs no slot.
            self.assertEqual(int(largest), (1 << 20) // row * 16 + 1)
            self.refuse(["needs"], *ask, "--max-model-len", int(largest) + 1, model=model, np=np)
        largest = (1 << 20) // PAGE_ROW_BYTES * 16 + 1
        self.assertEqual(int(re.findall("that fits is ([0-9]+)", self.refuse(["needs"], *ask, model=model))[0]), largest)
        run = self.generate(*ask, "--max-model-len", largest, "--json", model=model)
        self.assertEqual(run.objects[0]["usage"]["total_tokens"], largest)
        self.assertEqual(run.bill, [(1 << 20) // PAGE_ROW_BYTES * PAGE_ROW_BYTES])
        self.assertLessEqual(run.objects[0]["kv"]["peak_bytes_per_rank"][0], 1 << 20)

    def test_where_no_context_helps_the_refusal_says_so(self):
        self.refuse(["no --max-model-len helps", "more bytes"], *self.ask("--kv-cache-memory-bytes", PAGE_ROW_BYTES))
        self.refuse(["needs", "0 slots"], *self.ask("--kv-cache-memory-bytes", 1))

    def test_two_texts_share_under_a_budget_a_pool_that_holds_one_of_them_whole(self):
        """In the field memory was not freed by eviction: masks, copies, or pages with one survivor each."""
        path = self.write("two.jsonl", 2 * (json.dumps({"prompt": PROMPT}) + "\n"))
        pages = 20
        ask = ("--prompts", path, "--max-tokens", 40, "--ignore-eos", "--kv-cache-memory-bytes",
               pages * PAGE_ROW_BYTES, "--json", "--seed", 1)
        full = self.generate(*ask, "--max-num-seqs", 2).objects
        evicting = self.generate(*ask, *RANDOM, "--kv-budget", 144, "--max-num-seqs", 2).objects  # 2 times 10 pages
        alone = self.generate(*ask, *RANDOM, "--kv-budget", 144, "--max-num-seqs", 1).objects
        # One after the other: each has its own decode steps. Together: a step decodes for both.
        self.assertGreaterEqual(full[0]["work"]["steps"], 2 * 40)
        self.assertGreaterEqual(alone[0]["work"]["steps"], 2 * 40)
        self.assertLess(evicting[0]["work"]["steps"], 2 * 40)
        self.assertEqual([result["hash"] for result in evicting], [result["hash"] for result in alone])
        for results in (full, evicting):
            self.assertLessEqual(results[0]["work"]["kv_peak_bytes_per_rank"][0], pages * PAGE_ROW_BYTES)


class Progress(BudgetCase):
    def test_a_long_prompt_is_seen_to_be_read(self):
        """A line at least every five seconds, also where nobody's terminal is; none for a short prompt."""
        prompt = self.write("long.txt", "xyz " * 12000)
        run = self.generate("--prompt-file", prompt, "--max-model-len", 60000, "--max-tokens", 1, "--kv-eviction",
                            "streaming-llm", "--kv-budget", 1024, "--json", "--backend", "guard")
        lines = [line for line in run.errors.splitlines() if line.startswith("reading prompts: ")]
        self.assertGreater(len(lines), int(run.seconds / 6), run.errors)
        self.assertIn("48000 tokens", lines[-1])
        self.assertNotIn("reading", self.generate(*self.ask()).errors)


if __name__ == "__main__":
    main()
