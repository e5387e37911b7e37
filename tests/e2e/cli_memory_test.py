"""Resident memory of every rank while a long prompt is read. In the field a "bounded" cache still ran out of memory with
the prompt: because it was bounded in the answer only, because of scores of a whole prompt, or because of tables that
grow by the token. Here the ranks of a run with a long prompt must be as small as those with a short one."""

import os
import time
import unittest

from cli_case import TINY_HIDDEN, TINY_KV_HEADS, TINY_LAYERS, TINY_QUERY_HEADS, CliCase, main

KIB_PER_MIB = 1024
SHORT, LONG = 4096, 32768  # tokens; the vocabulary is one of bytes
# Between the two: 28 Ki tokens of 4 bytes each, in a handful of copies (text, request, plan, what the tokenizer works
# on), and what the allocators of two libraries make of it: 0.2 to 0.7 MiB when this was written. A full cache of them
# takes 21 MiB.
BOUND_KIB = 2 * KIB_PER_MIB


class LongPrompts(CliCase):
    def peaks_kib(self, num_tokens, *eviction, np):
        """{rank: the most memory it ever held}."""
        # Every rank leaves its process id; exec keeps it.
        command = self.write("rank.sh", '#!/bin/sh\necho $$ > "$RANKS/${OMPI_COMM_WORLD_RANK:-0}"\nexec "$@"\n')
        os.chmod(command, 0o755)
        ranks = self.path(f"ranks-{time.monotonic_ns()}")
        os.mkdir(ranks)
        prompt = self.write("prompt.txt", "xyz " * (num_tokens // 4))
        process = self.start(self.command_line()[0], "generate", "-m", self.model, "--threads", 1, "--prompt-file",
                             prompt, "--max-model-len", 2 * LONG, "--max-tokens", 2, "--ignore-eos", "--json", *eviction,
                             np=np, program=command, environment={"RANKS": ranks})
        peaks = {}
        while process.poll() is None:
            for rank in os.listdir(ranks):
                try:
                    with open(os.path.join(ranks, rank), encoding="ascii") as file:
                        process_id = file.read().strip()
                    with open(f"/proc/{process_id}/status", encoding="ascii") as file:
                        status = dict(line.split(":", 1) for line in file)
                except (FileNotFoundError, ProcessLookupError):
                    continue  # not started, or ended
                if status["Name"].strip() == "winnow" and "VmHWM" in status:
                    peaks[int(rank)] = int(status["VmHWM"].split()[0])
            time.sleep(0.005)
        output, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn(b'"finish_reason":"length"', output)
        self.assertEqual(sorted(peaks), list(range(np or 1)))
        return peaks

    def growth_kib(self, short, long, *eviction, np):
        before, after = (self.peaks_kib(tokens, *eviction, np=np) for tokens in (short, long))
        return [after[rank] - before[rank] for rank in sorted(before)]

    def test_memory_is_flat_while_a_prompt_of_32768_tokens_is_read_under_a_budget(self):
        for np, policies in ((1, ("streaming-llm", "h2o", "snapkv")), (2, ("h2o", "snapkv"))):
            for policy in policies:
                growth = self.growth_kib(SHORT, LONG, "--kv-eviction", policy, "--kv-budget", 512, np=np)
                print(f"{policy}, {np} rank(s): {growth} KiB more for {LONG - SHORT} more tokens")
                self.assertLess(max(growth), BOUND_KIB, (policy, np))

    def test_a_full_cache_grows_so_that_the_test_above_can_fail(self):
        long = 12288
        growth = self.growth_kib(SHORT, long, "--kv-eviction", "full", np=1)
        head_dim = TINY_HIDDEN // TINY_QUERY_HEADS
        cache_kib = (long - SHORT) * TINY_LAYERS * TINY_KV_HEADS * head_dim * 2 * 2 // 1024
        print(f"full: {growth} KiB more, its cache {cache_kib} KiB")
        self.assertGreaterEqual(growth[0], 0.9 * cache_kib)
        self.assertGreater(growth[0], BOUND_KIB)


if __name__ == "__main__":
    main()
