"""Hugging Face directories on the command line: they run like GGUF files, and what is missing or cut off ends all ranks
with exit code 3 before any weight is read."""

import json
import os
import re
import shutil
import unittest

from cli_case import TINY_HIDDEN, TINY_LAYERS, CliCase, main

SECONDS = 20  # far above the second that a refusal takes: the machine may be busy
BAD_ARGUMENT, BAD_FILE = 2, 3


class Directories(CliCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = cls.make_model("tiny/").rstrip("/")

    def copy(self, name):
        path = self.path(name)
        shutil.copytree(self.directory, path)
        self.addCleanup(shutil.rmtree, path)
        return path

    def refuse(self, parts, *arguments, code=BAD_FILE, np=2):
        run = self.run_winnow("generate", "--threads", 1, "--prompt", "hello", *arguments, np=np)
        self.assertEqual(run.code, code, run.errors)
        self.assertEqual(len(run.messages), 1, run.errors)
        for part in parts:
            self.assertIn(part, run.messages[0])
        self.assertNotIn("loading weights", run.errors)
        self.assertLess(run.seconds, SECONDS)

    def test_one_rank_and_two_give_the_same(self):
        one, two = (self.generate_json("--prompt", "hello world", "--max-tokens", 8, model=self.directory, np=np)
                    for np in (None, 2))
        self.assertEqual(one["token_ids"], two["token_ids"])
        self.assertEqual(one["logprobs"], two["logprobs"])

    def test_missing_and_cut_shards_end_all_ranks(self):
        path = self.copy("broken")
        shard = os.path.join(path, "model-00002-of-00003.safetensors")
        size = os.path.getsize(shard)
        os.truncate(shard, size - 4096)
        self.refuse(["model-00002-of-00003.safetensors", str(size - 4096), "cut off"], "-m", path)
        os.remove(shard)
        self.refuse(["3 shards", "missing model-00002-of-00003.safetensors"], "-m", path)

    def test_sampling_of_the_model_holds_unless_flags_say_otherwise(self):
        path = self.copy("sampled")
        with open(os.path.join(path, "generation_config.json"), "w") as file:
            json.dump({"do_sample": True, "temperature": 0.5, "top_k": 5, "repetition_penalty": 1.1}, file)

        def sampling(*flags):
            run = self.generate("--json", "--prompt", "hello", "--max-tokens", 2, *flags, model=path)
            return run.objects[0]["sampling"], run.errors

        found, errors = sampling()
        self.assertEqual((found["temperature"], found["top_k"]), (0.5, 5))
        self.assertIn("sampling with temperature 0.5, top_k 5", errors)
        self.assertIn("winnow does not have repetition_penalty 1.1", errors)
        found, errors = sampling("--top-k", 7)
        self.assertEqual((found["temperature"], found["top_k"]), (0.5, 7))
        found, errors = sampling("--temperature", 0)
        self.assertEqual((found["temperature"], found["top_k"]), (0, 0))
        self.assertNotIn("sampling with", errors)

    def test_adapters_are_inspected_and_checked_against_a_model(self):
        config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["o_proj"]}
        header, end = {}, 0
        for layer in range(TINY_LAYERS):
            for factor, shape in (("A", [2, TINY_HIDDEN]), ("B", [TINY_HIDDEN, 2])):
                size = 4 * shape[0] * shape[1]
                header[f"base_model.model.model.layers.{layer}.self_attn.o_proj.lora_{factor}.weight"] = {
                    "dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
                end += size
        text = json.dumps(header).encode()
        adapter = self.path("adapter")
        os.mkdir(adapter)
        self.write("adapter/adapter_config.json", json.dumps(config))
        with open(os.path.join(adapter, "adapter_model.safetensors"), "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text + bytes(end))
        run = self.run_winnow("inspect", adapter, "--model", self.directory, "--json")
        self.assertEqual(run.code, 0, run.errors)
        self.assertTrue(run.objects[0]["fits"])
        self.assertEqual(run.objects[0]["adapter"]["scale"], 2)
        run = self.run_winnow("inspect", adapter, "--model", self.make_model("narrow/", 6, 3).rstrip("/"))
        self.assertEqual(run.code, BAD_FILE)
        self.assertIn("[192, 192]", run.errors)
        self.write("adapter/adapter_config.json", json.dumps({**config, "use_dora": True}))
        run = self.run_winnow("inspect", adapter)
        self.assertEqual(run.code, BAD_FILE)
        self.assertIn("use_dora", run.errors)
        self.assertEqual(self.run_winnow("inspect", self.directory, "--model", self.directory).code, BAD_ARGUMENT)

    def test_made_up_weights_need_a_configuration_alone(self):
        path = self.copy("dummy")
        for name in os.listdir(path):
            if "safetensors" in name:
                os.remove(os.path.join(path, name))
        one, two = (self.generate_json("--prompt", "hello", "--max-tokens", 4, "--load-format", "dummy", model=path, np=np)
                    for np in (None, 2))
        self.assertEqual(one["token_ids"], two["token_ids"])
        self.assertIn("made-up", one["run"]["model"])
        for name in os.listdir(path):
            if name != "config.json":
                os.remove(os.path.join(path, name))
        ids = self.write("ids.jsonl", '{"prompt": [5, 250, 17], "max_tokens": 4}\n')
        one, two = (self.generate_json("--prompts", ids, "--load-format", "dummy", model=path, np=np) for np in (None, 2))
        self.assertEqual(one["token_ids"], two["token_ids"])
        self.assertEqual(one["usage"]["prompt_tokens"], 3)
        self.assertEqual(one["text"], "".join(f"<{token}>" for token in one["token_ids"]))
        self.refuse(["--prompt", "no token in this model's vocabulary"], "-m", path, "--load-format", "dummy",
                    code=BAD_ARGUMENT)
        self.refuse(["--load-format", "auto or dummy", "'pt'"], "-m", path, "--load-format", "pt", code=BAD_ARGUMENT)
        self.refuse(["--load-format dummy"], "-m", os.path.join(path, "config.json"), np=None)

    def test_inspect_shows_what_a_directory_holds(self):
        run = self.run_winnow("inspect", "--json", self.directory)
        self.assertEqual(run.code, 0, run.errors)
        [shown] = run.objects
        self.assertEqual(shown["format"], "Hugging Face directory")
        self.assertTrue(shown["runs_on_winnow"])
        self.assertEqual(shown["valid_rank_counts"], list(range(1, 10)))
        self.assertIn("model.embed_tokens.weight", [tensor["name"] for tensor in shown["tensors"]])
        run = self.run_winnow("inspect", self.directory)
        self.assertTrue(re.search(r"BF16 +15 tensors", run.output), run.output)


if __name__ == "__main__":
    main()
