#!/usr/bin/env python3
"""Writes chat_templates.json: the cases of template_cases.py and what Python's Jinja makes of them.

make_template_golden.py [--renderer build/bin/render_chat]   with a renderer: compares instead, and prints differences
"""

import argparse
import json
import pathlib
import sys

from template_cases import BAD, CHATS, EXPRESSIONS, MESSAGES, REFUSED, TEMPLATES, VALUES
from template_chats import TOKENS, chats
from template_oracle import NOW, Winnow, render_python


def cases():
    small = {"messages": MESSAGES, "more": VALUES, "tokens": TOKENS}
    for expression in EXPRESSIONS.strip().split("\n"):
        # A list of values, one by one: printed as a tuple they would be repr'ed.
        yield expression, dict(small, template="{{ (" + expression + ",) }}")
    for expression in REFUSED.strip().split("\n"):
        yield expression, dict(small, template="{{ " + expression + " }}")
    for name, template in TEMPLATES.items():
        yield name, dict(small, template=template)
    for name, template in BAD.items():
        yield name, dict(small, template=template)
    for name, template in CHATS.items():
        for chat_name, chat in chats():
            yield f"{name}: {chat_name}", dict(chat, template=template, tokens=TOKENS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--renderer")
    options = parser.parse_args()
    results = [(name, case, render_python(case)) for name, case in cases()]
    if options.renderer:
        winnow, different = Winnow(options.renderer), 0
        for name, case, theirs in results:
            ours = winnow.render(case)
            same = theirs == {"text": ours["text"]} if "text" in ours else theirs.keys() == ours.keys()
            different += not same
            if not same:
                print(f"{name}\n  python {theirs}\n  winnow {ours}")
        print(f"{len(results)} cases, {different} different")
        return 1 if different else 0
    for kind, expected in (("EXPRESSIONS", "text"), ("REFUSED", "render_error"), ("BAD", "load_error")):
        known = set(globals()[kind]) if kind == "BAD" else set(globals()[kind].strip().split("\n"))
        for name, _, result in results:
            if name in known and expected not in result:
                raise SystemExit(f"{kind}: {name}: {result}")
    golden = {"now": NOW, "tokens": TOKENS, "small": {"messages": MESSAGES, "more": VALUES},
              "chats": dict(chats()), "templates": CHATS, "cases": []}
    for name, case, result in results:
        entry = {"name": name}
        if ": " in name and name.split(": ")[0] in CHATS:
            entry["template"], entry["chat"] = name.split(": ", 1)
        else:
            entry["source"] = case["template"]
        # Python's words for an error are its own.
        golden["cases"].append(dict(entry, **(result if "text" in result else {"error": next(iter(result))})))
    path = pathlib.Path(__file__).parent / "chat_templates.json"
    path.write_text(json.dumps(golden, ensure_ascii=True, indent=0) + "\n", encoding="utf-8")
    print(f"{path.name}: {len(golden['cases'])} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
