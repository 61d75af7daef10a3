"""`hermes completion`: scripts for bash, zsh and fish, made from the table of commands."""

from __future__ import annotations

from typing import Any

from hermes_local.address import Address
from hermes_local.arguments import Command, UsageError
from hermes_shell.commands import all_commands

Given = dict[str, Any]
SHELLS = ("bash", "zsh", "fish")
INSTALL = {
    "bash": 'add to ~/.bashrc: eval "$(hermes completion bash)"',
    "zsh": 'add to ~/.zshrc, after compinit: eval "$(hermes completion zsh)"',
    "fish": "hermes completion fish > ~/.config/fish/completions/hermes.fish",
}


def run(given: Given, address: Address) -> int:
    """Print the script."""
    shell = given["shell"]
    if shell not in SHELLS:
        raise UsageError(f"{shell!r} is not a shell with completion here: expected bash, zsh or fish")
    print({"bash": bash, "zsh": zsh, "fish": fish}[shell]())
    return 0


def words_after(commands: tuple[Command, ...]) -> dict[str, list[str]]:
    """What may follow: `` → first words, `sessions` → its verbs, `sessions list` → its options."""
    table: dict[str, list[str]] = {"": []}
    for command in commands:
        first, _, verb = command.name.partition(" ")
        if first not in table[""]:
            table[""].append(first)
        if verb:
            table.setdefault(first, []).append(verb)
        arguments = list(SHELLS) if command.name == "completion" else []
        table[command.name] = [*arguments, *(f"--{option.name}" for option in command.options)]
    return table


def bash() -> str:
    """For bash 3.2 and newer."""
    cases = "\n".join(
        f'    "{where}") words="{" ".join(words)}" ;;' for where, words in words_after(all_commands()).items()
    )
    return f"""# {INSTALL["bash"]}
_hermes() {{
  local words="" here="" previous="${{COMP_WORDS[COMP_CWORD-1]}}" current="${{COMP_WORDS[COMP_CWORD]}}" index
  case "$previous" in
    --cwd|--in) COMPREPLY=($(compgen -d -- "$current")); return ;;
    --output|-o) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  for ((index = 1; index < COMP_CWORD && index < 3; index++)); do
    case "${{COMP_WORDS[index]}}" in -*) break ;; esac
    here="${{here:+$here }}${{COMP_WORDS[index]}}"
  done
  _hermes_words "$here"
  if [ -z "$words" ]; then _hermes_words "${{here%% *}}"; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
_hermes_words() {{
  case "$1" in
{cases}
    *) words="" ;;
  esac
}}
complete -F _hermes hermes"""


def zsh() -> str:
    """For zsh, through its bash emulation of completion."""
    return f"""# {INSTALL["zsh"]}
autoload -U +X bashcompinit && bashcompinit
{bash()}"""


def fish() -> str:
    """For fish."""
    lines = [f"# {INSTALL['fish']}", "complete -c hermes -f"]
    table = words_after(all_commands())
    helps = {command.name: command.help for command in all_commands()}
    for first in table[""]:
        note = helps.get(first, f"{first}: {', '.join(table.get(first, []))}")
        lines.append(f"complete -c hermes -n __fish_use_subcommand -a {first} -d {_quoted(note)}")
    for command in all_commands():
        first, _, verb = command.name.partition(" ")
        seen = f"__fish_seen_subcommand_from {first}"
        if verb:
            others = " ".join(table[first])
            condition = f"{seen}; and not __fish_seen_subcommand_from {others}"
            lines.append(f"complete -c hermes -n {_quoted(condition)} -a {verb} -d {_quoted(command.help)}")
            seen += f"; and __fish_seen_subcommand_from {verb}"
        if command.name == "completion":
            lines.append(f"complete -c hermes -n {_quoted(seen)} -a {_quoted(' '.join(SHELLS))}")
        for option in command.options:
            short = f" -s {option.short}" if option.short else ""
            value = " -r" if option.value else ""
            folder = " -F" if option.value in ("DIR", "FILE") else ""
            told = f" -d {_quoted(option.help)}"
            lines.append(f"complete -c hermes -n {_quoted(seen)} -l {option.name}{short}{value}{folder}{told}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
