"""`hermes daemon install` and `uninstall`: files with which systemd or launchd starts the daemon of a home.

A file carries a digest of itself, so that one which was edited by hand is known and not overwritten.
"""

from __future__ import annotations

import hashlib
import os
import sys
from typing import Any
from xml.sax.saxutils import escape

from hermes_local.address import Address, ensure_home, ensure_private_dir, user_home
from hermes_local.spawn import EXIT_REFUSED, EXIT_UNAVAILABLE
from hermes_shell.failures import Failed

Given = dict[str, Any]
SIGNATURE = "Written by `hermes daemon install`, digest "
AGAIN = 100
"""hermes-daemon's exit code for `--supervised`: start the next one."""

SERVICE = """\
[Unit]
Description=hermes-daemon, the owner of your coding agent's sessions ({name})
{requires}
[Service]
Type=notify
ExecStart={command}
ExecReload=kill -HUP $MAINPID
Environment={environment}
# The daemon ends its children itself, within its own deadlines.
KillMode=mixed
TimeoutStopSec=60
Restart=on-failure
RestartForceExitStatus={again}
SuccessExitStatus={again}
# Another daemon owns this home, or the home cannot be used: trying again would not help.
RestartPreventExitStatus=69 75

[Install]
{install}
"""

SOCKET = """\
[Unit]
Description=The socket of hermes-daemon ({name})

[Socket]
ListenStream={socket}
SocketMode=0600
DirectoryMode=0700
RemoveOnStop=yes

[Install]
WantedBy=sockets.target
"""

PLIST = """\
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{label}</string>
  <key>ProgramArguments</key>
  <array>
{arguments}
  </array>
  <key>EnvironmentVariables</key>
  <dict>
{environment}
  </dict>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ExitTimeOut</key>
  <integer>60</integer>
  <key>StandardOutPath</key>
  <string>{log}</string>
  <key>StandardErrorPath</key>
  <string>{log}</string>
</dict>
</plist>
"""


class Plan:
    """`files` by path, and the commands a person runs to `enable` and to `stop` what they describe."""

    def __init__(self, files: dict[str, str], enable: tuple[str, ...], stop: tuple[str, ...], links: tuple[str, ...]):
        self.files = files
        self.enable = enable
        self.stop = stop
        self.links = links


def install(given: Given, address: Address) -> int:
    """Write the files, or print them, and say what makes them effective."""
    plan = _plan(given, address)
    if given["print"]:
        for path, text in plan.files.items():
            print(f"# {path}\n{text}")
        return 0
    edited = [path for path, text in plan.files.items() if _edited(path, text)]
    if edited and not given["force"]:
        raise Failed(f"edited by hand, not overwritten: {', '.join(edited)}; --force writes it anew", EXIT_REFUSED)
    ensure_private_dir(address.runtime_dir)
    ensure_home(address)
    for path, text in plan.files.items():
        _write(path, text)
        print(f"wrote {path}")
    print("\nTo have it started now and with every login:")
    for command in ("hermes daemon stop", *plan.enable):
        print(f"  {command}")
    return 0


def uninstall(given: Given, address: Address) -> int:
    """Remove what install wrote; files that were edited by hand only with --force."""
    plan = _plan({**given, "socket_activation": _manager(given) == "systemd"}, address)
    there = [path for path in plan.files if os.path.lexists(path)]
    if not there:
        print("nothing is installed")
        return 0
    edited = [path for path in there if not _ours(path)]
    if edited and not given["force"]:
        raise Failed(f"edited by hand, not removed: {', '.join(edited)}; --force removes it", EXIT_REFUSED)
    for path in (*there, *(link for link in plan.links if os.path.islink(link))):
        os.unlink(path)
        print(f"removed {path}")
    print("\nTo end what runs of it:")
    for command in plan.stop:
        print(f"  {command}")
    return 0


def _plan(given: Given, address: Address) -> Plan:
    if _manager(given) == "systemd":
        return _systemd(address, activated=bool(given["socket_activation"]))
    if given["socket_activation"]:
        raise Failed(
            "launchd passes its sockets in a way of its own that is not supported; leave it away", EXIT_REFUSED
        )
    return _launchd(address)


def _manager(given: Given) -> str:
    known = {"linux": "systemd", "darwin": "launchd"}
    manager = given["for"] or known.get(sys.platform)
    if manager is None:
        raise Failed(f"services are written for systemd and launchd, not for {sys.platform}", EXIT_UNAVAILABLE)
    return str(manager)


def _systemd(address: Address, *, activated: bool) -> Plan:
    name = _name(address)
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = f"{base if base.startswith('/') else user_home(os.environ) + '/.config'}/systemd/user"
    service, socket = f"{name}.service", f"{name}.socket"
    text = SERVICE.format(
        name=address.profile or "default profile",
        requires=f"Requires={socket}\nAfter={socket}\n" if activated else "",
        command=" ".join(_quoted(word).replace("$", "$$") for word in _command(address)),
        environment=" ".join(_quoted(f"{key}={value}") for key, value in address.environ().items()),
        again=AGAIN,
        install=f"Also={socket}" if activated else "WantedBy=default.target",
    )
    files = {f"{folder}/{service}": _signed(text, "# {}\n")}
    if activated:
        path = address.socket_path.replace("%", "%%")
        listening = SOCKET.format(name=address.profile or "default profile", socket=path)
        files[f"{folder}/{socket}"] = _signed(listening, "# {}\n")
    reload = "systemctl --user daemon-reload"
    return Plan(
        files,
        (reload, f"systemctl --user enable --now {socket if activated else service}"),
        (f"systemctl --user stop {socket} {service}" if activated else f"systemctl --user stop {service}", reload),
        (f"{folder}/default.target.wants/{service}", f"{folder}/sockets.target.wants/{socket}"),
    )


def _launchd(address: Address) -> Plan:
    label = _name(address)
    path = f"{user_home(os.environ)}/Library/LaunchAgents/{label}.plist"
    pairs = address.environ().items()
    text = PLIST.format(
        label=label,
        arguments="\n".join(f"    <string>{escape(word)}</string>" for word in _command(address)),
        environment="\n".join(f"    <key>{key}</key>\n    <string>{escape(value)}</string>" for key, value in pairs),
        log=escape(address.log_path),
    )
    head = '<?xml version="1.0" encoding="UTF-8"?>\n'
    target = f"gui/{os.getuid()}"
    return Plan(
        {path: head + _signed(text, "<!-- {} -->\n")},
        (f"launchctl bootstrap {target} {path}",),
        (f"launchctl bootout {target}/{label}",),
        (),
    )


def _name(address: Address) -> str:
    return f"hermes-daemon-{address.profile}" if address.profile else "hermes-daemon"


def _command(address: Address) -> list[str]:
    words = [sys.executable, "-P", "-m", "hermes_daemon", "serve", "--supervised"]
    return [*words, "--runtime-dir", address.runtime_dir]


def _quoted(word: str) -> str:
    """A word of a systemd unit: specifiers and quotes taken literally (systemd.syntax(7))."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{plain}"'


def _signed(text: str, comment: str) -> str:
    return comment.format(SIGNATURE + _digest(text)) + text


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _edited(path: str, text: str) -> bool:
    """Whether something else than `text` stands at `path` that was not written by an install."""
    return os.path.lexists(path) and not _ours(path) and _read(path) != text


def _ours(path: str) -> bool:
    """Whether the file is as an install wrote it: its digest is that of its other lines."""
    lines = _read(path).splitlines(keepends=True)
    for number, line in enumerate(lines[:2]):
        if SIGNATURE in line:
            return _digest("".join(lines[number + 1 :])) == line.partition(SIGNATURE)[2].split()[0]
    return False


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary, path)
