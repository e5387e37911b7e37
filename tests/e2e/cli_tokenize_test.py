"""winnow tokenize: ids, bytes and origin of the tokens of a text, from a GGUF file and from a directory."""

import os

import cli_case
from cli_case import CliCase

TOKENIZERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "tokenizers")


class Tokenize(CliCase):
    def tokenize(self, *arguments, name="bpe_llama2", **options):
        run = self.run_winnow("tokenize", "--model", os.path.join(TOKENIZERS, name), "--json", *arguments, **options)
        self.assertEqual(run.code, 0, run.errors)
        return run.objects

    def test_shows_id_bytes_and_origin(self):
        tokens = self.tokenize("--text", "<s>é 漢")
        self.assertEqual(tokens[0], {"id": 1, "text": "<s>", "bytes": b"<s>".hex(), "origin": "bos", "begin": 0, "end": 0})
        self.assertNotIn("special", [token["origin"] for token in tokens])
        self.assertIn("byte", [token["origin"] for token in tokens])
        self.assertEqual(bytes.fromhex("".join(token["bytes"] for token in tokens[1:])).decode(), " <s>é 漢")
        for token, following in zip(tokens, tokens[1:]):
            self.assertEqual(token["end"], following["begin"])

    def test_texts_of_json_are_escaped_once(self):
        tokens = self.tokenize("--no-bos", "--text", 'a"\\\n漢')
        for token in tokens:
            self.assertEqual(token["text"], bytes.fromhex(token["bytes"]).decode(errors="replace"))
        self.assertIn("\n", [token["text"] for token in tokens])

    def test_reads_special_tokens_only_when_asked_and_no_second_begin(self):
        run = self.run_winnow("tokenize", "--model", os.path.join(TOKENIZERS, "bpe_llama2"), "--special", "--json",
                              typed="<s>a</s>")  # fmt: skip
        self.assertEqual([(token["id"], token["origin"]) for token in run.objects if token["origin"] != "text"],
                         [(1, "special"), (2, "special")])  # fmt: skip
        self.assertIn("none was put in front", run.errors)
        self.assertEqual([token["origin"] for token in self.tokenize("--no-bos", "--special", "--text", "a</s>")],
                         ["text", "special"])  # fmt: skip

    def test_reads_a_gguf_file_and_a_text_file(self):
        path = self.write("text.txt", 'say "hi"\x1b\n')
        run = self.run_winnow("tokenize", "--model", self.model, path)
        self.assertEqual(run.code, 0, run.errors)
        self.assertEqual(len(run.output.splitlines()), len('say "hi"\x1b\n'))
        self.assertIn('"\\x1b"', run.output)
        self.assertIn('"\\n"', run.output)
        self.assertNotIn("\x1b", run.output)
        self.assertIn("10 tokens, 10 bytes", run.errors)

    def test_refuses_what_it_cannot_read(self):
        model = os.path.join(TOKENIZERS, "bytes_qwen")
        for code, message, arguments in (
            (3, "expected a tokenizer.json or a tokenizer.model", ("--model", self.folder, "--text", "a")),
            (2, "both --text and a file", ("--model", model, "--text", "a", self.model)),
            (2, "expected UTF-8", ("--model", model, self.write("latin1.txt", b"\xe9"))),
            (2, "begin-of-text token", ("--model", model, "--text", "a", "--bos")),
            (2, "cannot be read", ("--model", model, self.path("missing.txt"))),
            (2, "--model", ("--text", "a")),
        ):
            run = self.run_winnow("tokenize", *arguments)
            self.assertEqual(run.code, code, run.errors)
            self.assertIn(message, run.errors)


if __name__ == "__main__":
    cli_case.main()
