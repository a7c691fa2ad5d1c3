"""Writes tools/whence/python_commands.json: the command lines of subcommands in Python, from their parsers.
`tests/cli/test_completions.py` fails if the file is out of date.

    PYTHONPATH=python build/venv/bin/python tools/setup/python_commands.py > tools/whence/python_commands.json
"""

from __future__ import annotations

import argparse
import json

from whence.annotation import carry_command
from whence.editing import attest_command
from whence.fleet import command_line as fleet
from whence.numerics import annotate_command, command_line as accuracy, validate_command
from whence.quantising import command_line as sensitivity
from whence.recorder import build as recorder
from whence.values import command_line as record

PARSERS = (record.parser, annotate_command.parser, attest_command.parser, validate_command.parser, carry_command.parser,
           accuracy.parser, sensitivity.parser, fleet.parser, recorder.parser)


def described(parser: argparse.ArgumentParser) -> dict:
    name = parser.prog.split()[-1]
    options, arguments = [], []
    for action in parser._actions:  # argparse has no public list of actions
        if action.help == argparse.SUPPRESS:
            continue
        help_text = "this text" if action.dest == "help" else (action.help or "") % {"default": action.default}
        choices = list(map(str, action.choices or ()))
        if not action.option_strings:
            arguments.append({"name": action.metavar or action.dest, "help": help_text, "is_file": True, "repeated": False})
            continue
        flag = action.nargs == 0
        options.append({
            "name": next(each[2:] for each in action.option_strings if each.startswith("--")),
            "letter": next((each[1:] for each in action.option_strings if not each.startswith("--")), ""),
            "placeholder": "" if flag else action.metavar or "|".join(choices) or action.dest.upper(),
            "help": help_text, "repeated": type(action).__name__ in ("_AppendAction", "_ExtendAction"), "choices": choices})
    required = [f"--{option['name']} {option['placeholder']}" for option, action in zip(
        options, (each for each in parser._actions if each.option_strings and each.help != argparse.SUPPRESS), strict=True)
        if action.required]
    usage = " ".join([*(each["name"] for each in arguments), *required, "[OPTIONS]"])
    text = " ".join(filter(None, (parser.description, parser.epilog)))
    return {"name": name, "usage": usage, "description": text, "arguments": arguments, "options": options}


if __name__ == "__main__":
    print("[\n" + ",\n".join(json.dumps(described(make()), ensure_ascii=False) for make in PARSERS) + "\n]")
