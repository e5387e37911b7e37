#!/usr/bin/env python3
"""Renders every chat template of a folder with Python's Jinja and with winnow and says where they differ.

compare_chat_templates.py --renderer build/bin/render_chat FOLDER [--verbose]

FOLDER holds *.jinja files, such as models/templates of llama.cpp's sources. Each is rendered for the conversations of
template_chats.py. `same` counts equal texts, `refused` conversations that both refuse; exit 1 if anything else happens.
"""

import argparse
import difflib
import pathlib
import sys

from template_chats import TOKENS, chats
from template_oracle import Winnow, render_python


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--renderer", required=True)
    parser.add_argument("--verbose", action="store_true", help="show differences and messages")
    options = parser.parse_args()
    winnow = Winnow(options.renderer)
    files = sorted(options.folder.glob("*.jinja"))
    total = {"same": 0, "refused": 0, "different": 0}
    unsupported, equal_files = [], 0
    print(f"{'template':58} same refused different")
    for file in files:
        counts = dict.fromkeys(total, 0)
        source = file.read_text(encoding="utf-8")
        for name, chat in chats():
            case = dict(chat, template=source, tokens=TOKENS)
            theirs, ours = render_python(case), winnow.render(case)
            if "load_error" in ours:
                unsupported.append(f"{file.name}: {ours['load_error']}")
                break
            if theirs.get("text") is not None and theirs.get("text") == ours.get("text"):
                counts["same"] += 1
            elif "text" not in theirs and "text" not in ours:
                counts["refused"] += 1
                if options.verbose:
                    print(f"  both refuse '{name}': {list(theirs.values())[0]:.150} | {list(ours.values())[0]:.150}")
            else:
                counts["different"] += 1
                if options.verbose:
                    show(name, theirs, ours)
        else:
            equal_files += counts["different"] == 0
        for key, count in counts.items():
            total[key] += count
        print(f"{file.name[:58]:58} {counts['same']:4} {counts['refused']:7} {counts['different']:9}")
    print(f"{'all ' + str(len(files)):58} {total['same']:4} {total['refused']:7} {total['different']:9}")
    print(f"{equal_files} of {len(files)} templates agree on every conversation")
    for line in unsupported:
        print("not loaded:", line)
    return 0 if equal_files == len(files) else 1


def show(name, theirs, ours):
    print(f"  differs on '{name}'")
    if "text" not in theirs or "text" not in ours:
        print(f"    python: {str(theirs):.300}\n    winnow: {str(ours):.300}")
        return
    for line in list(difflib.unified_diff(theirs["text"].split("\n"), ours["text"].split("\n"), "python", "winnow",
                                          lineterm="", n=1))[:12]:
        print("   ", line[:200])


if __name__ == "__main__":
    sys.exit(main())
