"""`winnow generate --save-kv` and `--load-kv`: a text that stops and goes on, on other numbers of ranks, and what winnow
says of files and flags that do not fit."""

import json
import os
import struct
import unittest

from cli_case import CliCase, main
from cli_errors_test import BAD_ARGUMENT, BAD_FILE, ErrorCase

SMOLLM2 = os.environ.get("WINNOW_MODEL")
PROMPT = "hello world, " * 20
EVICTING = ("--kv-budget", 64, "--kv-interval", 16, "--kv-recent-tokens", 16)
SAMPLED = ("--temperature", 1.2, "--seed", 7, "--ignore-eos")


def read_safetensors(path):
    """Header and data of a file."""
    with open(path, "rb") as file:
        content = file.read()
    [length] = struct.unpack("<Q", content[:8])
    return json.loads(content[8:8 + length]), bytearray(content[8 + length:])


def write_safetensors(path, header, data):
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return path


def without_tensors(header, data, names):
    """Header and data without these tensors, the others moved together."""
    left, moved = {"__metadata__": header["__metadata__"]}, bytearray()
    for name, entry in sorted((pair for pair in header.items() if pair[0] != "__metadata__"),
                              key=lambda pair: pair[1]["data_offsets"]):
        if name not in names:
            begin, end = entry["data_offsets"]
            left[name] = dict(entry, data_offsets=[len(moved), len(moved) + end - begin])
            moved += data[begin:end]
    return left, moved


class GoesOn(CliCase):
    def check(self, *arguments, counts=((1, 2, 3), (3, 1, 2)), model=None, tokens=(9, 5, 10), environment=None):
        """Saved and loaded twice, on these numbers of ranks, against a run that never stops."""
        options = {"model": model, "environment": environment}
        whole = self.generate_json("--prompt", PROMPT, "--max-tokens", sum(tokens), *SAMPLED, *arguments, **options)
        for ranks in counts:
            parts, start, path = [], ("--prompt", PROMPT, *arguments), self.path("a.safetensors")
            for np, count in zip(ranks, tokens):
                parts.append(self.generate_json(*start, "--max-tokens", count, *SAMPLED, "--save-kv", path, np=np,
                                                **options))
                start = ("--load-kv", path)
            for key in ("token_ids", "logprobs"):
                self.assertEqual(sum((part[key] for part in parts), []), whole[key], (arguments, ranks))
            last = parts[-1]
            self.assertEqual(last["hash"]["kept"], whole["hash"]["kept"])
            for key in ("policy", "budget", "interval", "scope", "recent_tokens", "tokens_seen", "evictions",
                        "kept_entries", "evicted_entries", "full_entries", "pages_freed"):
                self.assertEqual(last["kv"][key], whole["kv"][key], key)
            self.assertEqual(last["usage"]["total_tokens"], whole["usage"]["total_tokens"])
            self.assertEqual(last["usage"]["loaded_tokens"], last["usage"]["prompt_tokens"] - 1)
            self.assertEqual(last["work"]["rows"], tokens[-1])
        return whole

    def test_on_other_numbers_of_ranks_as_if_it_had_never_stopped(self):
        self.assertEqual(self.check("--kv-eviction", "full")["kv"]["evictions"], 0)
        for policy, scope in (("random", "head"), ("snapkv", "sequence"), ("h2o", "layer"), ("r-kv", "head")):
            whole = self.check("--kv-eviction", policy, "--kv-scope", scope, *EVICTING)
            self.assertGreater(whole["kv"]["evictions"], 0)

    @unittest.skipUnless(SMOLLM2, "WINNOW_MODEL names no model file")
    def test_smollm2_on_one_two_and_three_ranks(self):
        self.check("--kv-eviction", "snapkv", *EVICTING, counts=((1, 2, 3),), model=SMOLLM2, tokens=(30, 10, 20))

    def test_a_prompt_is_appended_and_answered(self):
        path, again = self.path("first.safetensors"), self.path("second.safetensors")
        ask = ("--kv-eviction", "streaming-llm", *EVICTING)
        first = self.generate_json("--prompt", PROMPT, "--max-tokens", 20, *SAMPLED, *ask, "--save-kv", path, np=2)
        before = first["usage"]["total_tokens"]
        results = []
        for np in (None, 1, 3):
            results.append(self.generate_json("--load-kv", path, "--prompt", "and then?", "--max-tokens", 20, *SAMPLED,
                                              "--save-kv", again, np=np))
        for result in results:
            for key in ("token_ids", "logprobs", "hash"):
                self.assertEqual(result[key], results[0][key])
            self.assertGreater(result["usage"]["prompt_tokens"], before)
            self.assertEqual(result["usage"]["loaded_tokens"], before - 1)
        prompt_file = self.write("more.txt", "and then?")
        result = self.generate_json("--load-kv", path, "--prompt-file", prompt_file, "--max-tokens", 20, *SAMPLED)
        self.assertEqual(result["token_ids"], results[0]["token_ids"])
        # The tokens of the new prompt belong to the prompt of what is saved again.
        self.assertEqual(read_safetensors(again)[0]["__metadata__"]["prompt_tokens"],
                         str(results[0]["usage"]["prompt_tokens"]))

    def test_nothing_is_appended_where_layers_were_cut_for_another_prompt(self):
        path = self.path("pyramid.safetensors")
        ask = ("--kv-eviction", "pyramidkv-prefill", "--kv-budget", 24, "--kv-sink-tokens", 2, "--kv-recent-tokens", 8)
        self.generate_json("--prompt", PROMPT, "--max-tokens", 5, *ask, "--save-kv", path)
        self.generate_json("--load-kv", path, "--max-tokens", 5)
        run = self.run_winnow("generate", "--model", self.model, "--load-kv", path, "--prompt", "and then?")
        self.assertEqual(run.code, 2, run.errors)
        self.assertIn("only continued", run.errors)

    def test_an_answer_that_ended_by_itself_is_saved_too(self):
        path = self.path("stopped.safetensors")
        stopped = None
        for seed in range(60):
            stopped = self.generate_json("--prompt", "abc", "--max-tokens", 60, "--temperature", 2, "--seed", seed,
                                         "--save-kv", path)
            if stopped["finish_reason"] == "stop":
                break
        if stopped["finish_reason"] != "stop":
            self.skipTest("no seed drew the end of the text")
        result = self.generate_json("--load-kv", path, "--prompt", "more", "--max-tokens", 3)
        self.assertGreater(result["usage"]["prompt_tokens"], stopped["usage"]["total_tokens"])

    def test_the_seed_of_the_file_is_used_unless_another_is_given(self):
        path = self.path("seed.safetensors")
        self.generate("--prompt", "abc", "--max-tokens", 3, *SAMPLED, "--save-kv", path)
        result = self.generate_json("--load-kv", path, "--max-tokens", 3, "--temperature", 1)
        self.assertEqual(result["sampling"]["seed"], 7)
        result = self.generate_json("--load-kv", path, "--max-tokens", 3, "--seed", 8)
        self.assertEqual(result["sampling"]["seed"], 8)

    def test_flags_may_repeat_what_the_file_says(self):
        path = self.path("flags.safetensors")
        ask = ("--kv-eviction", "h2o", *EVICTING, "--kv-scope", "layer", "--kv-cache-dtype", "f32")
        self.generate("--prompt", PROMPT, "--max-tokens", 3, *ask, "--save-kv", path)
        result = self.generate_json("--load-kv", path, "--max-tokens", 3, *ask)
        self.assertEqual(result["kv"]["recent_tokens"], 32)  # raised by the policy

    def test_the_table_says_what_was_loaded(self):
        path = self.path("table.safetensors")
        self.generate("--prompt", "abc", "--max-tokens", 3, "--ignore-eos", "--save-kv", path)
        self.assertRegex(self.generate("--load-kv", path, "--max-tokens", 3, "--ignore-eos").output,
                         r"\n  loaded +\d+ tokens with their KV cache\n  prefill +1 tokens")


class Refusals(ErrorCase):
    """One saved file, spoiled in one place at a time."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.saved = cls.path("good.safetensors")

    def setUp(self):
        if not os.path.exists(self.saved):
            self.generate("--prompt", PROMPT, "--max-tokens", 8, *SAMPLED, "--kv-eviction", "h2o", "--kv-scope",
                          "layer", *EVICTING, "--save-kv", self.saved)

    def refuse_file(self, parts, path, *arguments, np=(None,)):
        self.refuse([path, *parts], "--load-kv", path, *arguments, code=BAD_FILE, prompt=(), np=np)

    def test_other_files_are_named(self):
        self.refuse_file(["No such file"], self.path("missing.safetensors"), np=(None, 2))
        self.refuse_file(["empty"], self.write("empty.safetensors", ""))
        self.refuse_file(["regular file"], self.folder)
        self.refuse_file(["header"], self.model)
        self.refuse_file(["winnow.format_version", "found none"],
                         write_safetensors(self.path("foreign.safetensors"), {}, b""))
        with open(self.saved, "rb") as file:
            content = file.read()
        for size in (4, 8, 100, len(content) // 2, len(content) - 1):
            self.refuse_file(["expected", "found"], self.write("cut.safetensors", content[:size]))

    def test_another_model_dtype_or_arithmetic_is_refused(self):
        other = self.make_model("other.gguf", 6, 3)
        self.expect(BAD_FILE, [self.saved, "model.fingerprint", "another model"], "generate", "-m", other, "--load-kv",
                    self.saved)
        self.refuse_file(["numerics", "fast", "'exact'"], self.saved, "--numerics", "fast")
        f32 = self.path("f32.safetensors")
        self.generate("--prompt", "abc", "--max-tokens", 2, "--kv-cache-dtype", "f32", "--save-kv", f32)
        self.refuse_file(["kv_cache_dtype", "bf16", "'f32'", "--kv-cache-dtype"], f32)

    def test_every_spoiled_number_is_found(self):
        metadata = {"winnow.format_version": ("1", "expected 2, found '1'"),
                    "model.fingerprint": ("0" * 16, "another model"),
                    "prompt_tokens": ("0", "prompt_tokens: expected 1 to"),
                    "tokens_seen": ("3", "tokens: expected one more than the 3"),
                    "evictions": ("0", "slots"),
                    "seed": ("-1", "seed"),
                    "choice_index": ("x", "choice_index"),
                    "kept_hash": ("12", "kept_hash"),
                    "pages_freed": ("01", "pages_freed"),
                    "eviction.policy": ("snap", "snap"),
                    "eviction.budget": ("16", "16"),
                    "eviction.interval": ("0", "--kv-interval"),
                    "eviction.larger_heads": ("6", "larger_heads"),
                    "eviction.sink_tokens": ("70", "70 sink"),
                    "eviction.recent_tokens": ("5", "recent_tokens"),
                    "eviction.protect_prompt": ("yes", "true or false"),
                    "eviction.scope": ("token", "token"),
                    "eviction.allocation": ("token", "token"),
                    "eviction.timing": ("after_prefill", "chunked")}
        header, data = read_safetensors(self.saved)
        self.assertEqual(set(header["__metadata__"]) - set(metadata), {"model.name", "numerics", "kv_cache_dtype"})
        for key, (value, part) in metadata.items():
            spoiled = json.loads(json.dumps(header))
            spoiled["__metadata__"][key] = value
            self.refuse_file([part], write_safetensors(self.path("spoiled.safetensors"), spoiled, data))
            del spoiled["__metadata__"][key]
            self.refuse_file([key, "none"], write_safetensors(self.path("spoiled.safetensors"), spoiled, data))
        header["__metadata__"]["more"] = "x"
        self.refuse_file(["unknown key 'more'"], write_safetensors(self.path("spoiled.safetensors"), header, data))

    def test_every_spoiled_tensor_is_found(self):
        header, data = read_safetensors(self.saved)

        def refuse(name, index, form, value, *parts):
            spoiled = bytearray(data)
            struct.pack_into(form, spoiled, header[name]["data_offsets"][0] + index * struct.calcsize(form), value)
            self.refuse_file(parts, write_safetensors(self.path("spoiled.safetensors"), header, spoiled))

        refuse("tokens", 2, "<i", 1 << 20, "tokens: expected ids", str(1 << 20))
        refuse("tokens", 2, "<i", -1, "tokens: expected ids", "-1")
        refuse("layers.0.lengths", 1, "<i", -4, "layers.0.lengths", "-4")
        refuse("layers.0.lengths", 1, "<i", 1 << 30, "layers.0.positions", "expected I32")
        refuse("layers.1.positions", 3, "<i", 1 << 20, "layer 1, KV head 0", "ascending", str(1 << 20))
        refuse("layers.1.positions", 3, "<i", 0, "layer 1, KV head 0", "ascending", "found 0 at index 3")
        refuse("layers.0.keys", 0, "<H", 0x7f80, "layer 0, KV head 0", "keys", "finite")
        refuse("layers.1.values", 5, "<H", 0xffff, "layer 1, KV head 0", "values", "finite")
        refuse("layers.0.mass", 0, "<q", -1, "mass", "found -1")
        for name in header:
            if name == "__metadata__":
                continue
            spoiled = json.loads(json.dumps(header))
            spoiled["x"] = spoiled.pop(name)
            self.refuse_file([f"tensor {name}: expected", "none"],
                             write_safetensors(self.path("spoiled.safetensors"), spoiled, data))
        spoiled = json.loads(json.dumps(header))
        spoiled["x"] = {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}
        self.refuse_file(["tensors"], write_safetensors(self.path("spoiled.safetensors"), spoiled, data))

    def test_queries_of_an_observation_window_are_checked(self):
        path, spoiled = self.path("queries.safetensors"), self.path("spoiled.safetensors")
        names = ["layers.0.queries", "layers.1.queries"]
        for tokens in range(8, 24, 4):  # the window is half of the interval: some of these stop inside of it
            self.generate("--prompt", PROMPT, "--max-tokens", tokens, *SAMPLED, "--kv-eviction", "r-kv", *EVICTING,
                          "--save-kv", path)
            header, data = read_safetensors(path)
            if names[0] in header:
                break
        rows = header[names[0]]["shape"][1]
        self.refuse_file([f"queries: expected those of the {rows} newest tokens", "found 0"],
                         write_safetensors(spoiled, *without_tensors(header, data, names)))
        self.refuse_file(["queries", "found 0"],
                         write_safetensors(spoiled, *without_tensors(header, data, names[:1])))
        self.refuse_file([f"tensor {names[1]}: expected", "none"],
                         write_safetensors(spoiled, *without_tensors(header, data, names[1:])))
        bad = bytearray(data)
        struct.pack_into("<f", bad, header[names[1]]["data_offsets"][0] + 8, float("nan"))
        self.refuse_file(["layer 1, KV head 0: queries", "finite"], write_safetensors(spoiled, header, bad))
        header[names[0]]["shape"][2:] = reversed(header[names[0]]["shape"][2:])
        self.refuse_file([names[0], "expected F32"], write_safetensors(spoiled, header, data))

    def test_flags_that_contradict_the_file_are_named(self):
        for flag, value, was in (("--kv-eviction", "snapkv", "h2o"), ("--kv-budget", 65, 64), ("--kv-interval", 8, 16),
                                 ("--kv-scope", "head", "layer"), ("--kv-sink-tokens", 5, 4),
                                 ("--kv-recent-tokens", 40, 32), ("--kv-cache-dtype", "f32", "bf16"),
                                 ("--kv-ratio", 0.5, 64)):
            self.refuse([flag, self.saved, str(was)], "--load-kv", self.saved, flag, value, prompt=())
        self.refuse(["--kv-protect-prompt", self.saved], "--load-kv", self.saved, "--kv-protect-prompt", prompt=())

    def test_prompts_that_do_not_fit_are_refused(self):
        self.refuse(["empty"], "--load-kv", self.saved, prompt=("--prompt", ""))
        self.refuse(["--prompts", "--load-kv"], "--load-kv", self.saved,
                    prompt=("--prompts", self.write("p.jsonl", '{"prompt": "a"}\n')), np=(None, 2))
        self.refuse(["context", "--max-model-len"], "--load-kv", self.saved, "--max-model-len", 20, prompt=())
        self.refuse(["--load-kv"], prompt=())

    def test_a_place_that_cannot_be_written_is_refused_before_any_work(self):
        two = self.write("two.jsonl", '{"prompt": "a"}\n{"prompt": "b"}\n')
        self.refuse(["--save-kv", "found 2"], "--save-kv", self.path("x"), prompt=("--prompts", two), np=(None, 2))
        missing = self.path("no/such/x")
        self.refuse([missing, "No such file"], "--save-kv", missing, code=BAD_FILE, np=(None, 2))
        self.refuse([self.folder, "regular file"], "--save-kv", self.folder, code=BAD_FILE)
        self.assertFalse([name for name in os.listdir(self.folder) if ".tmp" in name])


if __name__ == "__main__":
    main()
