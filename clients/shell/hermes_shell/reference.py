"""The reference page of the command line, made from the tables of commands. Run as a module it prints the page."""

from __future__ import annotations

from hermes_local.arguments import Command, spell
from hermes_shell.commands import all_commands

HEAD = """\
# The command line

Made from the tables that the parser reads: `python -m hermes_shell.reference > docs/reference/cli.md`.

`hermes` is the people's command, `hermes-daemon` the daemon's own. `-p PROFILE` may stand before or after the
command; HERMES_PROFILE says the same for a whole shell. Without a command, on a terminal, `hermes` is `hermes chat`.
`--daemon URL` and `--token-file FILE` may stand there too: they name a daemon that is reached over the network
([howto/remote.md](../howto/remote.md)) and is never started from here.

## Exit codes

| code | meaning |
|---|---|
| 0 | done |
| 1 | the turn, or what was asked for, failed |
| 2 | the command line does not fit |
| 3 | no daemon is running |
| 4 | daemon and client have no protocol version in common |
| 5 | refused: unknown session, a request that does not fit, no permission |
| 69 | unavailable: the daemon cannot start or store, something stands in the way |
| 75 | try again: the daemon is starting, stopping, overloaded or does not answer |
| 130 | interrupted with Ctrl-C |
| 141 | the reader of the output has gone |

## Environment

| variable | meaning |
|---|---|
| HERMES_HOME | the home: configuration, sessions, logs; else the user's data folder of `hermes-daemon` |
| HERMES_PROFILE | the profile, `default` for the home itself |
| HERMES_DAEMON | the URL of the daemon to use, as `--daemon` |
| HERMES_DAEMON_TOKEN_FILE | the file of its token, as `--token-file` |
| SSL_CERT_FILE | certificates (PEM) that a client trusts at `tls://` and `wss://`, instead of the system's |
| XDG_RUNTIME_DIR | where socket, lock and state file lie (in a folder `hermes-daemon`), if it is private |
| XDG_DATA_HOME | where the home lies without HERMES_HOME |
| NO_COLOR | no colour on a terminal either |

## hermes
"""

DAEMON = """\
## hermes-daemon

| command | |
|---|---|
| `hermes-daemon serve [--foreground]` | serve the clients of one home until stopped or idle |
| `hermes-daemon serve --listen URL… [--allow-remote] [--tls-cert FILE] [--tls-key FILE]` | on the network too |
| `hermes-daemon stdio [--private]` | the protocol on standard input and output; `--private`: by a daemon of its own |
| `hermes-daemon schema [--format jsonschema\\|openrpc] [--out DIR]` | the protocol's schema |
| `hermes-daemon config get\\|set\\|unset\\|path\\|validate` | the configuration without a daemon |
| `hermes-daemon plugins validate PATH\\|ID [--run]` | look at a plugin's folder without a daemon |
| `hermes-daemon models pull\\|list\\|rm` | models of the embedded provider |
| `hermes-daemon start\\|stop\\|restart\\|status\\|logs\\|reload\\|install\\|uninstall` | as `hermes daemon …` |
"""


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join([HEAD, *("\n".join(_section(command)) for command in all_commands()), DAEMON])


def _section(command: Command) -> list[str]:
    called = " ".join(("hermes", command.name, *command.arguments))
    lines = [f"### `{called}`", "", f"{command.help[0].upper()}{command.help[1:]}.", ""]
    own = [option for option in command.options if option.name != "profile"]
    if own:
        lines += ["| option | |", "|---|---|"]
        for option in own:
            chosen = f" ({', '.join(option.choices)})" if option.choices else ""
            lines.append(f"| `{spell(option)}` | {option.help}{chosen} |")
        lines.append("")
    return lines


if __name__ == "__main__":
    print(page(), end="")
