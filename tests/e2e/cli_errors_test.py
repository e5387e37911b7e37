"""What winnow says and how it ends when something is wrong: one line, the documented exit code, within seconds, on one
rank and on two. And `winnow version` and `winnow inspect`."""

import json
import os
import resource
import signal
import time
import unittest

from cli_case import TINY_CONTEXT, CliCase, main

SECONDS = 20  # far above the second that a refusal takes: the machine may be busy
BAD_ARGUMENT, BAD_FILE, NO_MEMORY = 2, 3, 4


class ErrorCase(CliCase):
    def expect(self, code, parts, *arguments, np=(None, 2), **options):
        for count in np:
            with self.subTest(arguments=arguments, np=count):
                run = self.run_winnow(*arguments, np=count, **options)
                self.assertEqual(run.code, code, run.errors)
                self.assertEqual(len(run.messages), 1, run.errors)
                for part in parts:
                    self.assertIn(part, run.messages[0])
                self.assertEqual(run.output, "")
                self.assertLess(run.seconds, SECONDS)

    def refuse(self, parts, *arguments, code=BAD_ARGUMENT, prompt=("--prompt", "abc"), np=(None,), **options):
        """`winnow generate` on the tiny model. Mostly alone: that two ranks say it once is one mechanism for all."""
        self.expect(code, parts, "generate", "-m", self.model, "--threads", 1, *prompt, *arguments, np=np, **options)


class CommandLine(ErrorCase):
    def test_unknown_and_missing_arguments_are_named(self):
        self.expect(BAD_ARGUMENT, ["'--bogus'"], "generate", "--bogus")
        self.expect(BAD_ARGUMENT, ["'bogus'"], "bogus")
        self.expect(BAD_ARGUMENT, ["subcommand"], np=(None,))
        self.expect(BAD_ARGUMENT, ["--model"], "generate", "--prompt", "a", np=(None,))
        self.refuse(["--max-tokens", "1.5"], "--max-tokens", "1.5", np=(2,))

    def test_exactly_one_prompt_is_needed(self):
        self.refuse(["--prompt", "--prompt-file", "--prompts"], prompt=(), np=(None, 2))
        self.refuse(["--prompt", "--prompt-file", "--prompts"], "--prompt-file", "x", np=(None, 2))
        self.refuse(["--prompt"], "--prompt", "two")
        self.refuse(["empty"], prompt=("--prompt", ""), np=(None, 2))

    def test_numbers_out_of_range_are_named(self):
        for flag in ("--threads", "--max-tokens", "--max-model-len", "--max-num-seqs", "--max-num-batched-tokens"):
            if flag != "--threads":
                self.refuse([flag, "-3"], flag, -3)
        self.expect(BAD_ARGUMENT, ["--threads", "0"], "generate", "-m", self.model, "--prompt", "a", "--threads", 0)
        self.refuse(["temperature", "-1"], "--temperature", -1, np=(None, 2))
        self.refuse(["temperature", "1000"], "--temperature", 1000)
        self.refuse(["temperature", "nan"], "--temperature", "nan")
        self.refuse(["top_p", "0"], "--top-p", 0)
        self.refuse(["top_p", "1.5"], "--top-p", 1.5)
        self.refuse(["top_k", "-1"], "--top-k", -1)
        self.refuse(["min_p", "1"], "--min-p", 1)
        for seed in ("-1", "1.5", "99999999999999999999999", "010", "x"):
            self.refuse(["--seed", seed], "--seed", seed)
        self.refuse(["--max-model-len", "9000000000"], "--max-model-len", 9000000000)
        self.refuse(["--max-num-batched-tokens", "65536", "65537"], "--max-num-batched-tokens", 65537, np=(None, 2))

    def test_unknown_choices_are_refused_with_the_known_ones(self):
        self.refuse(["exact", "fast", "quick"], "--numerics", "quick", np=(None, 2))
        self.refuse(["cpu", "guard", "reference", "tpu"], "--backend", "tpu", np=(None, 2))
        self.refuse(["auto", "avx512", "avx2", "plain", "sse"], "--cpu-kernels", "sse", np=(None, 2))
        self.refuse(["bf16", "f32", "q8"], "--kv-cache-dtype", "q8")
        self.refuse(["scope", "head", "layer", "sequence", "token"], "--kv-scope", "token", np=(None, 2))

    def test_eviction_settings_must_make_sense(self):
        self.refuse(["full", "streaming-llm", "random", "snap"], "--kv-eviction", "snap", np=(None, 2))
        self.refuse(["random", "--kv-budget"], "--kv-eviction", "random", np=(None, 2))
        self.refuse(["golden", "known to its end", "winnow eval loss"], "--kv-eviction", "golden", "--kv-budget", 64)
        evicting = ("--kv-eviction", "random", "--kv-budget", 64)
        self.refuse(["--kv-budget 64", "4 sink", "61 recent"], *evicting, "--kv-recent-tokens", 61)
        self.refuse(["--kv-interval", "0"], *evicting, "--kv-interval", 0)
        for flag in ("--kv-interval", "--kv-sink-tokens", "--kv-recent-tokens", "--kv-budget"):
            self.refuse([flag, "-2"], "--kv-eviction", "full", flag, -2)
        self.refuse(["--kv-budget", "9223372036854775807"], "--kv-eviction", "random", "--kv-budget", 2**63 - 1)

    def test_rank_counts_that_do_not_fit_are_refused(self):
        self.refuse(["10 ranks", "9 query heads", "1 to 9"], np=(10,))
        self.refuse(["3", "1 rank was"], "--tensor-parallel-size", 3)
        self.refuse(["3", "2 ranks were"], "--tensor-parallel-size", 3, np=(2,))
        self.refuse(["4", "SLURM_NTASKS", "srun --mpi=pmix"], environment={"SLURM_NTASKS": "4"})

    def test_a_rank_with_other_arguments_ends_the_job(self):
        command = self.write("differ.sh", '#!/bin/sh\n'
                                          'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then set -- "$@" --bogus; fi\n'
                                          'exec "$@"\n')
        os.chmod(command, 0o755)
        winnow = self.command_line()[0]
        self.expect(BAD_ARGUMENT, ["rank 1", "--bogus"], winnow, "generate", "-m", self.model, "--prompt", "a",
                    program=command, np=(2,))


class Prompts(ErrorCase):
    def test_bad_prompt_files_are_named(self):
        self.refuse(["empty.txt", "empty"], prompt=("--prompt-file", self.write("empty.txt", "")), np=(None, 2))
        self.refuse(["bad.txt", "byte 2"], prompt=("--prompt-file", self.write("bad.txt", b"ab\xffcd")), np=(None, 2))
        self.refuse(["missing.txt", "No such file"], prompt=("--prompt-file", self.path("missing.txt")), np=(None, 2))
        self.refuse([self.folder, "directory"], prompt=("--prompt-file", self.folder))
        self.refuse([self.folder, "directory"], prompt=("--prompts", self.folder))

    def test_bad_lines_are_named_by_file_line_and_field(self):
        good = '{"prompt": "hello"}\n'
        for line, parts in (('{"prompt": "a", "max_token": 3}', ["max_token", "unknown"]),
                            ('{"prompt": "a", "max_tokens": "3"}', ["max_tokens", '"3"']),
                            ('{"prompt": "a", "max_tokens": 0}', ["max_tokens", "0"]),
                            ('{"prompt": "a", "seed": -1}', ["seed", "-1"]),
                            ('{"prompt": "a", "top_p": true}', ["top_p", "true"]),
                            ('{"prompt": 7}', ["prompt", "7"]),
                            ('{"prompt": ""}', ["empty"]),
                            ('{"prompt": "a", "kv_eviction": "random"}', ["--kv-budget"]),
                            ('{"prompt": "a", "kv_scope": "token"}', ["kv_scope", "head", "layer", "sequence"]),
                            ('{"prompt": "a", "top_k": 1, "top_k": 2}', ['"top_k"', "twice"]),
                            ('{"prompt": "a", "max_tokens": ' + "[" * 10**6 + "]" * 10**6 + "}",
                             ['"max_tokens"', "an array"]),
                            ("[" * 10**6 + "]" * 10**6, ["object"]),
                            ('{"prompt": "a", "seed": "' + "x" * 10**6 + '"}', ["seed", "xxx..."]),
                            ('{"max_tokens": 3}', ['"prompt"']),
                            ('["prompt"]', ["object"]),
                            ('{"prompt": "a"', ["JSON"])):
            path = self.write("lines.jsonl", good + "\n" + line + "\n" + good)
            self.refuse(["lines.jsonl line 3", *parts], prompt=("--prompts", path))
        self.refuse(["lines.jsonl line 3", "JSON"], prompt=("--prompts", path), np=(2,))
        self.refuse(["none.jsonl", "no prompt"], prompt=("--prompts", self.write("none.jsonl", "\n\n")))

    def test_a_prompt_longer_than_the_context_names_both_numbers(self):
        long = self.write("long.txt", "xyz " * 1500)
        self.refuse(["6000", str(TINY_CONTEXT)], prompt=("--prompt-file", long), np=(None, 2))
        self.refuse(["100", "90"], "--max-model-len", 90, prompt=("--prompt", "x" * 100))

    def test_a_context_above_the_models_own_works_with_one_warning(self):
        long = self.write("long.txt", "xyz " * 1100)
        for np in (None, 2):
            run = self.generate("--prompt-file", long, "--max-model-len", 5000, "--max-tokens", 2, "--json", np=np)
            self.assertEqual(len(run.messages), 1, run.errors)
            self.assertIn("5000", run.messages[0])
            self.assertIn(str(TINY_CONTEXT), run.messages[0])
            self.assertEqual(run.objects[0]["usage"]["prompt_tokens"], 4400)


class Files(ErrorCase):
    def bad_files(self):
        with open(self.model, "rb") as file:
            content = file.read()
        return [(self.path("missing.gguf"), "No such file"),
                (self.write("cut.gguf", content[:len(content) // 2]), "bytes"),
                (self.write("header.gguf", content[:100]), "bytes"),
                (self.write("foreign.gguf", b"\x7fELF" + bytes(4000)), "GGUF"),
                (self.write("empty.gguf", b""), "empty"),
                (self.folder, "config.json")]

    def test_bad_model_files_are_named(self):
        for path, part in self.bad_files():
            self.expect(BAD_FILE, [path, part], "generate", "-m", path, "--prompt", "a")

    def test_a_file_that_one_rank_cannot_read_is_named_with_the_rank(self):
        command = self.write("hide.sh", f'#!/bin/sh\nmodel={self.model}\n'
                                        f'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then model={self.path("gone.gguf")}; fi\n'
                                        f'exec "$@" --model "$model"\n')
        os.chmod(command, 0o755)
        winnow = self.command_line()[0]
        self.expect(BAD_FILE, ["rank 1 (host ", "gone.gguf"], winnow, "generate", "--prompt", "a", program=command,
                    np=(2,))

    def test_ranks_with_different_models_are_refused_with_the_first_such_rank(self):
        other = self.make_model("other.gguf", 6, 3)
        for models in ((self.model, other), (other, self.model), (self.model, self.model, other)):
            # mpirun -np 1 winnow ... : -np 1 winnow ...
            lines = [("generate", "-m", model, "--threads", 1, "--prompt", "a") for model in models]
            more = [word for line in lines[1:] for word in (":", "-np", 1, *self.command_line(*line))]
            self.expect(BAD_FILE, [f"rank {len(models) - 1} (host ", models[-1], "fingerprint"], *lines[0], *more,
                        np=(1,))

    def test_inspect_refuses_bad_files_too(self):
        for path, part in self.bad_files():
            self.expect(BAD_FILE, [path, part], "inspect", path, np=(None,))
        self.expect(BAD_FILE, ["missing.gguf"], "inspect", self.path("missing.gguf"), "--json", np=(2,))
        self.expect(BAD_ARGUMENT, ["file"], "inspect", np=(None,))

    def test_inspect_shows_a_good_file(self):
        for np in (None, 2):
            run = self.run_winnow("inspect", self.model, "--json", np=np)
            self.assertEqual((run.code, run.errors), (0, ""))
            [result] = run.objects
            self.assertEqual(result["config"]["context"], TINY_CONTEXT)
            self.assertEqual(result["valid_rank_counts"], list(range(1, 10)))
            self.assertIs(result["runs_on_winnow"], True)
        text = self.run_winnow("inspect", self.model)
        self.assertEqual((text.code, text.errors), (0, ""))
        self.assertIn("runs on winnow: yes", text.output)

    def test_version_says_what_was_built(self):
        for np in (None, 2):
            run = self.run_winnow("version", "--json", np=np)
            self.assertEqual((run.code, run.errors), (0, ""))
            [result] = run.objects
            for key in ("version", "git_id", "compiler", "mpi", "ucx", "isa", "numerics"):
                self.assertIn(key, result)
        self.assertIn(json.loads(run.output)["version"], self.run_winnow("version").output)


class Resources(ErrorCase):
    def test_too_little_memory_is_exit_4(self):
        limit = 1 << 30
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
        try:
            runs = [self.run_winnow("generate", "-m", self.model, "--threads", 1, "--prompt", "a", "--max-tokens", 10**7,
                                    "--max-model-len", 2 * 10**7, np=np) for np in (None, 2)]
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
        for run in runs:
            self.assertEqual(run.code, NO_MEMORY, run.errors)
            self.assertEqual(len(run.messages), 2, run.errors)  # the first is about the model's context
            self.assertIn("KV pool", run.messages[1])

    def test_threads_that_cannot_be_started_are_exit_4(self):
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, before[1]))  # 200 stacks of 8 MiB are more
        try:
            run = self.run_winnow("generate", "-m", self.model, "--threads", 200, "--prompt", "a", "--max-tokens", 1)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
        self.assertEqual(run.code, NO_MEMORY, run.errors)
        self.assertIn("--threads", run.messages[-1])

    def test_a_prompt_file_without_an_end_is_refused(self):
        for flag in ("--prompt-file", "--prompts"):
            run = self.run_winnow("generate", "-m", self.model, flag, "/dev/zero")
            self.assertEqual(run.code, 2, run.errors)
            self.assertIn("'/dev/zero': expected at most", run.errors)

    def test_a_whole_number_in_another_notation_is_refused(self):
        for flag in ("--max-tokens", "--kv-budget", "--top-k", "--threads"):
            for text in ("010", "0x10", "1e3", "99999999999999999999"):
                run = self.run_winnow("generate", "-m", self.model, "--prompt", "a", flag, text)
                self.assertEqual(run.code, 2, run.errors)
                self.assertIn(f"found '{text}'", run.errors)

    def test_control_characters_of_a_model_name_do_not_reach_the_terminal(self):
        with open(self.model, "rb") as file:
            content = file.read()
        model = self.write("name.gguf", content.replace(b"tiny random model", b"tiny \x1b[31m\a model"))
        self.assertNotIn("\x1b", self.run_winnow("inspect", model).output)
        run = self.run_winnow("generate", "-m", model, "--prompt", "a", "--max-tokens", 1)
        self.assertEqual(run.code, 0, run.errors)
        table = run.output[run.output.index("  model "):]
        self.assertNotIn("\x1b", table)

    def test_help_version_and_inspect_need_their_output_written(self):
        for arguments in (("--help",), ("version",), ("inspect", self.model)):
            with open("/dev/full", "wb") as full:
                process = self.start(*arguments, stdout=full)
            _, errors = process.communicate(timeout=SECONDS)
            self.assertEqual(process.returncode, 1, arguments)
            self.assertIn(b"winnow: standard output", errors)

    def test_output_that_cannot_be_written_is_an_error(self):
        for extra in ((), ("--json",)):
            with open("/dev/full", "wb") as full:
                process = self.start("generate", "-m", self.model, "--prompt", "a", "--max-tokens", 2, *extra,
                                     stdout=full)
            _, errors = process.communicate(timeout=SECONDS)
            self.assertEqual(process.returncode, 1)
            self.assertIn(b"winnow: standard output", errors)


class LostRank(CliCase):
    def ranks_of(self, mpirun):
        """{rank: process id} of the winnow processes below mpirun."""
        with open(f"/proc/{mpirun.pid}/task/{mpirun.pid}/children", encoding="ascii") as file:
            children = file.read().split()
        ranks = {}
        for child in children:
            with open(f"/proc/{child}/environ", "rb") as file:
                for entry in file.read().split(b"\0"):
                    if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                        ranks[int(entry.split(b"=")[1])] = int(child)
        return ranks

    @staticmethod
    def is_running(process_id):
        try:
            with open(f"/proc/{process_id}/stat", encoding="ascii") as file:
                return file.read().rsplit(")", 1)[1].split()[0] != "Z"
        except FileNotFoundError:
            return False

    def test_the_job_ends_when_a_rank_is_killed(self):
        for victim in (0, 1):
            process = self.start("generate", "-m", self.model, "--threads", 1, "--prompt", "hello", "--ignore-eos",
                                 "--max-tokens", 10**6, "--max-model-len", 2 * 10**6, "--kv-eviction", "streaming-llm",
                                 "--kv-budget", 64, "--kv-interval", 16, np=2)
            self.assertNotEqual(process.stdout.read(64), b"")  # generating
            ranks = self.ranks_of(process)
            self.assertEqual(sorted(ranks), [0, 1])
            os.kill(ranks[victim], signal.SIGKILL)
            killed = time.monotonic()
            process.communicate(timeout=10)
            self.assertLess(time.monotonic() - killed, 10)
            self.assertNotEqual(process.returncode, 0)
            self.assertEqual([rank for rank, process_id in ranks.items() if self.is_running(process_id)], [])


if __name__ == "__main__":
    main()
