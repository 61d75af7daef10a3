"""Every command of `hermes` except chat and demo: one table for the parser, help, completion and the reference page."""

from __future__ import annotations

from hermes_local.arguments import Command, Option
from hermes_shell.chat import CHAT, PROFILE

JSON = Option("json", "print JSON")
SESSION = Option("session", "only those of this session", value="ID", short="s")
FEEDBACK = Option("feedback", "what the agent should know", value="TEXT")
YES = Option("yes", "do not ask", short="y")


class Entry:
    """A command, spelled `family verb` or one word, and the function that runs it: `module:function`."""

    __slots__ = ("command", "handler")

    def __init__(self, name: str, help: str, handler: str, *arguments: str, options: tuple[Option, ...] = ()) -> None:
        self.command = Command(name, help, arguments, (*options, PROFILE))
        self.handler = f"hermes_shell.{handler}"


ENTRIES = (
    Entry(
        "sessions list",
        "the sessions, the most recently used first",
        "sessions:show_list",
        options=(
            Option("cwd", "only those of this folder", value="DIR"),
            Option("query", "only those whose title or text matches", value="TEXT", short="q"),
            Option("limit", "at most so many (50)", value="N", number=True, short="n"),
            Option("archived", "the archived ones"),
            JSON,
        ),
    ),
    Entry(
        "sessions show",
        "one session: what it is and its last messages",
        "sessions:show",
        "SESSION",
        options=(Option("limit", "so many of its last items (20)", value="N", number=True, short="n"), JSON),
    ),
    Entry("sessions rename", "give a session a title", "sessions:rename", "SESSION", "TITLE..."),
    Entry("sessions delete", "delete sessions for good", "sessions:delete", "SESSION...", options=(YES,)),
    Entry(
        "sessions export",
        "write a whole session to standard output or a file",
        "sessions:export",
        "SESSION",
        options=(
            Option("format", "its form, markdown if not said", value="FORMAT", choices=("json", "markdown"), short="f"),
            Option("output", "write to this file, mode 0600", value="FILE", short="o"),
        ),
    ),
    Entry(
        "sessions search",
        "find words in all sessions",
        "sessions:search",
        "TEXT...",
        options=(
            Option("limit", "at most so many hits (20)", value="N", number=True, short="n"),
            Option("cwd", "only in sessions of this folder", value="DIR"),
            JSON,
        ),
    ),
    Entry(
        "sessions fork",
        "begin a new session with what another holds; prints its id",
        "branching:fork",
        "SESSION",
        options=(
            Option("at", "the last item it takes over, else all of them", value="ITEM"),
            Option("title", "its title", value="TEXT"),
        ),
    ),
    Entry(
        "sessions rewind",
        "take the last message back with everything behind it; prints its words",
        "branching:rewind",
        "SESSION",
        options=(
            Option("turns", "so many messages (1)", value="N", number=True, short="n"),
            Option("to", "back to this item; a user message goes too", value="ITEM"),
        ),
    ),
    Entry("sessions archive", "take sessions out of the lists", "branching:archive", "SESSION..."),
    Entry("sessions unarchive", "put archived sessions back", "branching:unarchive", "SESSION..."),
    Entry(
        "sessions events",
        "the events of a session as lines of JSON, for scripts",
        "journal:show",
        "SESSION",
        options=(
            Option("follow", "go on with what comes", short="f"),
            Option("after", "only those behind this number", value="SEQ", number=True),
            Option("epoch", "the epoch that --after counts in", value="EPOCH"),
        ),
    ),
    Entry("daemon start", "start the daemon if none runs", "daemon:start"),
    Entry(
        "daemon stop",
        "stop the daemon: running turns may finish first",
        "daemon:stop",
        options=(
            Option("drain", "let running turns finish (the default)"),
            Option("now", "end running turns; a daemon that does not answer is killed"),
        ),
    ),
    Entry(
        "daemon restart",
        "stop the daemon and start a new one",
        "daemon:restart",
        options=(Option("drain", "let running turns finish (the default)"), Option("now", "end running turns")),
    ),
    Entry("daemon status", "what the daemon is doing", "daemon:status", options=(JSON,)),
    Entry(
        "daemon logs",
        "the end of the daemon's log",
        "daemon:logs",
        options=(
            Option("follow", "go on with what is added", short="f"),
            Option("lines", "so many lines (50)", value="N", number=True, short="n"),
        ),
    ),
    Entry(
        "daemon telemetry",
        "what the daemon has counted, or what it measures as it happens",
        "telemetry:run",
        "[SESSION]",
        options=(Option("follow", "go on with what is measured, of SESSION in full", short="f"), JSON),
    ),
    Entry("daemon reload", "read the configuration again", "daemon:reload"),
    Entry(
        "daemon install",
        "write the files with which systemd or launchd starts the daemon",
        "service:install",
        options=(
            Option("socket-activation", "start it with the first connection, by a socket that systemd holds"),
            Option("for", "whose files, if not this system's", value="WHOM", choices=("systemd", "launchd")),
            Option("print", "only show them"),
            Option("force", "overwrite files that were edited by hand"),
        ),
    ),
    Entry(
        "daemon uninstall",
        "remove the files that install wrote",
        "service:uninstall",
        options=(
            Option("for", "whose files, if not this system's", value="WHOM", choices=("systemd", "launchd")),
            Option("force", "remove files that were edited by hand as well"),
        ),
    ),
    Entry("doctor", "look at everything that has to be right, and say what to do", "doctor:run", options=(JSON,)),
    Entry("config get", "a setting's value, or all of them", "config:get", "[KEY]"),
    Entry("config set", "change a setting in config.yaml", "config:set_value", "KEY", "VALUE"),
    Entry("config path", "where config.yaml is", "config:path"),
    Entry("config validate", "check config.yaml without a daemon", "config:validate"),
    Entry("tools list", "the tools the agent may use", "catalogs:tools", options=(JSON,)),
    Entry("model", "the default model, or another one as the default", "models:model", "[MODEL]"),
    Entry(
        "models list",
        "the models that can be asked",
        "models:models",
        options=(Option("probe", "ask the endpoints which models they have"), JSON),
    ),
    Entry(
        "usage",
        "tokens and cost, by model and task: of one session or of all",
        "usage:run",
        "[SESSION]",
        options=(JSON,),
    ),
    Entry(
        "auth list",
        "where the keys of providers are looked for, and whether they are there",
        "auth:show_list",
        options=(JSON,),
    ),
    Entry(
        "auth set",
        "keep a provider's key; it is asked for without echo or read from standard input",
        "auth:set_key",
        "PROVIDER",
        options=(
            Option("keyring", "in the system's key store instead of .env"),
            Option("remove", "take the key out"),
        ),
    ),
    Entry("auth test", "try the keys by asking their endpoints", "auth:test", "[PROVIDER]", options=(JSON,)),
    Entry("models pull", "fetch a model for the embedded provider", "models:pull", "MODEL"),
    Entry("models rm", "remove a fetched model", "models:remove", "MODEL"),
    Entry(
        "attach", "join a session: the one that runs in this folder, or one of the live ones", "attach:run", "[SESSION]"
    ),
    Entry(
        "watch",
        "every session as it changes, like top: q leaves, Enter attaches",
        "watch:run",
        options=(Option("once", "print the table once"), Option("json", "a line of JSON at every change")),
    ),
    Entry(
        "say",
        "put a text into a session, running or not; - reads standard input",
        "say:run",
        "SESSION",
        "TEXT...",
        options=(
            Option("steer", "while a turn runs: hand it to that turn"),
            Option("interrupt", "while a turn runs: end it first"),
            Option("reject", "while a turn runs: fail"),
            Option(
                "when-busy",
                "the same in one word, queue if not said",
                value="HOW",
                choices=("queue", "steer", "interrupt", "reject"),
            ),
            Option("wait", "wait for the end of the turn and print the answer", short="w"),
            JSON,
        ),
    ),
    Entry(
        "requests",
        "the questions that wait for an answer, or one of them whole",
        "questions:show",
        "[REQUEST]",
        options=(SESSION, JSON),
    ),
    Entry(
        "approve",
        "allow what is asked for: the only open request, or the one named",
        "answering:approve",
        "[REQUEST]",
        "[OPTION]",
        options=(
            SESSION,
            Option("session-long", "for the rest of its session"),
            Option("always", "in every session"),
            FEEDBACK,
            JSON,
        ),
    ),
    Entry(
        "deny",
        "refuse what is asked for: the only open request, or the one named",
        "answering:deny",
        "[REQUEST]",
        options=(SESSION, Option("always", "also in future, where that is offered"), FEEDBACK, JSON),
    ),
    Entry(
        "answer",
        "answer a question of any kind; a secret is asked for or read from standard input",
        "answering:answer",
        "REQUEST",
        "[ANSWER...]",
        options=(Option("skip", "leave out the questions that get no answer"), Option("decline", "give no answer")),
    ),
    Entry("plugins list", "the plugins, and which of them run", "plugins:show_list", options=(JSON,)),
    Entry(
        "plugins show", "one plugin: what it brought, its settings, its problems", "plugins:show", "ID", options=(JSON,)
    ),
    Entry("plugins enable", "let a plugin take part, from now on", "plugins:enable", "ID"),
    Entry("plugins disable", "keep a plugin out, from now on", "plugins:disable", "ID"),
    Entry("plugins reload", "read the files of one plugin, or of all, again", "plugins:reload", "[ID]"),
    Entry(
        "plugins config",
        "a plugin's settings, one of them, or a new value for it",
        "plugins:config",
        "ID",
        "[KEY]",
        "[VALUE]",
        options=(Option("unset", "back to the default"),),
    ),
    Entry(
        "plugins validate",
        "look at a plugin's folder without a daemon",
        "plugins:validate",
        "PATH",
        options=(Option("run", "import it and call its register() as well"),),
    ),
    Entry(
        "plugins new",
        "make a plugin that works, with a test",
        "plugin_new:run",
        "NAME",
        options=(
            Option(
                "style",
                "whose shape it has, hermes if not said",
                value="STYLE",
                choices=("hermes", "prism", "plain"),
            ),
            Option("in", "the folder it is made in, the home's plugins if not said", value="DIR"),
        ),
    ),
    Entry("hooks list", "the shell hooks, and which of them may run", "hooks:show_list", options=(JSON,)),
    Entry(
        "hooks allow",
        "let a shell hook run: the only one that waits, or the one named",
        "hooks:allow",
        "[HOOK]",
        options=(Option("all", "every one that waits"),),
    ),
    Entry(
        "hooks revoke",
        "let a shell hook run no more",
        "hooks:revoke",
        "[HOOK]",
        options=(Option("all", "every one that is allowed"),),
    ),
    Entry("profiles list", "the profiles of this home", "profiles:show_list"),
    Entry("profiles create", "make a profile", "profiles:create", "NAME"),
    Entry("profiles remove", "remove a profile with everything in it", "profiles:remove", "NAME", options=(YES,)),
    Entry("completion", "completion for a shell: bash, zsh or fish", "completion:run", "SHELL"),
)

DEMO = Command(
    "demo",
    "watch a scripted coding turn, without any key",
    options=(
        Option("yes", "answer the permission questions itself, visibly", short="y"),
        Option("keep", "leave the repository and the session behind"),
    ),
)
# `hermes tools` is `hermes tools list`, and so on.
DEFAULT_VERBS = {
    "sessions": "list",
    "tools": "list",
    "models": "list",
    "plugins": "list",
    "hooks": "list",
    "profiles": "list",
    "auth": "list",
    "daemon": "status",
}


def all_commands() -> tuple[Command, ...]:
    """Every command, chat and demo included."""
    return (CHAT, DEMO, *(entry.command for entry in ENTRIES))
