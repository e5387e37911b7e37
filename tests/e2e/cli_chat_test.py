"""winnow chat as a user runs it: lines are answered one after the other, alike from any number of processes, and what is
refused."""

from cli_case import CliCase, main

TEMPLATE = ("{% for message in messages %}[{{ message.role }}]{{ message.content }}\n{% endfor %}"
            "{% if add_generation_prompt %}[assistant]{% endif %}")


class Chat(CliCase):
    def chat(self, *arguments, template=TEMPLATE, path=None, typed="hi\n\nand more\n", **options):
        path = path or self.write("template.jinja", template)
        return self.run_winnow("chat", "--model", self.model, "--chat-template", path,
                               "--threads", 1, "--max-tokens", 8, "--temperature", 0, *arguments, typed=typed, **options)

    def refuse(self, part, *arguments, code=2, **options):
        run = self.chat(*arguments, **options)
        self.assertEqual(run.code, code, run.errors)
        self.assertEqual(run.output, "")
        self.assertIn(part, run.errors)

    def test_lines_are_answered_alike_by_one_and_two_processes(self):
        one, two = (self.chat("--kv-eviction", "streaming-llm", "--kv-budget", 24, "--kv-interval", 8,
                              "--kv-recent-tokens", 8, "--check-ranks", np=np) for np in (1, 2))
        self.assertEqual((one.code, two.code), (0, 0), one.errors + two.errors)
        self.assertNotEqual(one.output.strip(), "")
        self.assertEqual(one.output, two.output)

    def test_an_earlier_line_and_a_system_message_change_the_answer(self):
        both, last = self.chat(typed="hi\nand more\n"), self.chat(typed="and more\n")
        self.assertFalse(both.output.endswith(last.output))
        self.assertNotEqual(self.chat("--system", "short", typed="and more\n").output, last.output)

    def test_the_end_of_the_input_is_the_end(self):
        self.assertEqual(self.chat(typed="").code, 0)

    def test_what_suits_no_conversation_is_refused(self):
        budget = ("--kv-eviction", "h2o", "--kv-budget", 64)
        self.refuse("--kv-protect-prompt: every earlier line of a chat is its prompt", *budget, "--kv-protect-prompt")
        self.refuse("--kv-ratio: a chat grows with every line", "--kv-eviction", "h2o", "--kv-ratio", 0.5)
        self.refuse("--max-model-len: expected 2 or more, found 1", "--max-model-len", 1)

    def test_a_template_that_cannot_be_used_is_refused_with_its_line(self):
        self.refuse("line 2", template="{{ messages }}\n{% include 'other' %}", code=3)
        self.refuse("'no-such-file' cannot be read", path="no-such-file", code=3)


if __name__ == "__main__":
    main()
