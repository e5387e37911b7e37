"""Chat templates as Python's Jinja renders them, set up as Hugging Face's transformers does (apply_chat_template), and
as winnow does through tests/support/render_chat. For compare_chat_templates.py and make_template_golden.py."""

import datetime
import json
import subprocess

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1785067384  # 2026-07-26 12:03:04 UTC, a Sunday


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %}: its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def strftime_now(pattern):
        return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None).strftime(pattern)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.filters["from_json"] = json.loads  # some templates expect it; transformers has none
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def render_python(case):
    """{"text"}, {"load_error"} or {"render_error"}."""
    try:
        template = environment().from_string(case["template"])
    except jinja2.TemplateError as error:
        return {"load_error": str(error)}
    except Exception as error:  # e.g. RecursionError
        return {"load_error": repr(error)}
    try:
        text = template.render(messages=case["messages"], tools=case.get("tools"), documents=case.get("documents"),
                               add_generation_prompt=case.get("add_generation_prompt", True),
                               **case.get("more", {}), **case.get("tokens", {}))
        text.encode()  # lone surrogates are no text
        return {"text": text}
    except Exception as error:
        return {"render_error": f"{type(error).__name__}: {error}"}


class Winnow:
    """The program render_chat, fed one case after the other."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        encoding="utf-8")

    def render(self, case):
        self.process.stdin.write(json.dumps(dict(case, now=NOW)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"render_chat ended with {self.process.wait()} at {case!r:.300}")
        return json.loads(line)
