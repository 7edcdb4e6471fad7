"""The examples of docs/module.md, run as they stand.

`FANREAD_WRITE_DOCS=1` writes the replies into the page instead.
"""

import os
import pathlib
import re
import shlex
import subprocess

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "module.md"


def reply(server, command):
    words = shlex.split(command)
    done = subprocess.run(["redis-cli", "--no-raw", "-p", str(server.port), *words], check=True, capture_output=True, text=True)
    return done.stdout.rstrip("\n")


def test_examples_reply_what_they_say(server_of):
    server = server_of()
    text = PAGE.read_text()
    seen = []

    def run(block):
        commands = re.findall(r"^> (.*)$", block[1], re.M)
        seen.extend(commands)
        return "```text\n" + "".join(f"> {command}\n{reply(server, command)}\n" for command in commands) + "```"

    page = re.sub(r"```text\n(> (?:.|\n)*?)```", run, text)
    if os.environ.get("FANREAD_WRITE_DOCS"):
        PAGE.write_text(page)
    assert page == PAGE.read_text()
    # Every command has one.
    from test_commands import CALLS

    assert {command.split()[0] for command in seen} == {"OMAP." + name for name in CALLS}
