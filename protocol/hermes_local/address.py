"""Where a daemon lives: its home, its runtime folder, its socket, locks and state file.

The folders are the ones platformdirs answers for the name `hermes-daemon`, computed here because importing it costs
more than a whole request; a test compares the two.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "hermes-daemon"
# sockaddr_un holds 108 bytes on Linux and 104 elsewhere, the closing NUL included.
MAX_SOCKET_PATH = 100
PROFILE_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-")


class AddressError(Exception):
    """A home, profile or runtime folder that cannot be used; the message names it, what is wrong and what to do."""


class Address:
    """One daemon of one user: `root` is the home of the default profile, `home` the one of this profile.

    `socket_path` is at most 100 bytes. Where the runtime folder is too deep for that, the socket lies in a private
    folder below /tmp and `socket_link` is the symlink left in the runtime folder; else `socket_link` is empty.

    `daemon_url` is where a daemon is that clients shall use instead, on this machine or another, with the token in
    `token_file`; both are empty unless somebody said so.
    """

    __slots__ = (
        "daemon_url",
        "home",
        "lock_path",
        "log_path",
        "profile",
        "root",
        "runtime_dir",
        "socket_link",
        "socket_path",
        "start_lock_path",
        "state_path",
        "token_file",
    )

    def __init__(self, root: str, profile: str, runtime_dir: str) -> None:
        self.root = root
        self.profile = profile
        self.home = f"{root}/profiles/{profile}" if profile else root
        self.runtime_dir = runtime_dir
        self.daemon_url = self.token_file = ""
        stem = f"{runtime_dir}/d-{digest(root + chr(0) + profile)}"
        self.lock_path = stem + ".lock"
        self.start_lock_path = stem + ".start"
        self.state_path = stem + ".json"
        self.log_path = f"{self.home}/logs/daemon.log"
        self.socket_path = stem + ".sock"
        self.socket_link = ""
        if len(os.fsencode(self.socket_path)) > MAX_SOCKET_PATH:
            self.socket_link = self.socket_path
            self.socket_path = f"{short_dir()}/{stem.rpartition('/')[2]}.sock"

    def __repr__(self) -> str:
        return f"Address({self.root!r}, {self.profile!r}, {self.runtime_dir!r})"

    def environ(self) -> dict[str, str]:
        """The variables under which another process finds this same daemon."""
        return {"HERMES_HOME": self.root, "HERMES_PROFILE": self.profile}


def resolve(environ: Mapping[str, str] | None = None, profile: str | None = None) -> Address:
    """The address that HERMES_HOME, HERMES_PROFILE and the XDG variables give; `profile` wins over the environment.
    HERMES_DAEMON and HERMES_DAEMON_TOKEN_FILE name another daemon for clients.

    Nothing is created. AddressError where a name or a folder cannot be used.
    """
    env = os.environ if environ is None else environ
    name = env.get("HERMES_PROFILE", "") if profile is None else profile
    if name == "default":
        name = ""
    if name:
        check_profile(name)
    address = Address(home_root(env), name, runtime_dir(env))
    address.daemon_url = env.get("HERMES_DAEMON", "")
    address.token_file = env.get("HERMES_DAEMON_TOKEN_FILE", "")
    return address


def check_profile(name: str) -> None:
    """AddressError unless `name` may name a profile: 1 to 64 of a-z, 0-9, `_` and `-`, the first no sign."""
    if len(name) > 64 or not set(name) <= PROFILE_LETTERS or name[:1] in ("", "_", "-"):
        raise AddressError(
            f"profile {name!r} is not a name: expected 1 to 64 of a-z, 0-9, '_' and '-', first a letter or digit"
        )


def home_root(env: Mapping[str, str]) -> str:
    """HERMES_HOME, else the data folder of hermes-daemon; symlinks resolved, so that one home has one address."""
    given = env.get("HERMES_HOME", "")
    if given:
        if given[:1] == "~":
            given = user_home(env) + given[1:] if given[1:2] in ("", "/") else os.path.expanduser(given)
        return os.path.realpath(given)
    base = _absolute(env, "XDG_DATA_HOME")
    if not base:
        below = "Library/Application Support" if sys.platform == "darwin" else ".local/share"
        base = f"{user_home(env)}/{below}"
    return os.path.realpath(f"{base}/{NAME}")


def runtime_dir(env: Mapping[str, str]) -> str:
    """The folder of socket, locks and state file; XDG_RUNTIME_DIR counts only where it is private to this user."""
    given = _absolute(env, "XDG_RUNTIME_DIR")
    if given and _private(given, missing_ok=True):
        return f"{given.rstrip('/')}/{NAME}"
    if sys.platform == "darwin":
        return f"{user_home(env)}/Library/Caches/TemporaryItems/{NAME}"
    uid = os.geteuid()
    usual = f"/run/user/{uid}"
    if "bsd" in sys.platform:
        usual = f"/tmp/run/user/{uid}" if "openbsd" in sys.platform else f"/var/run/user/{uid}"  # noqa: S108 (OpenBSD's place)
    if _private(usual, missing_ok=False):
        return f"{usual}/{NAME}"
    return f"{_temporary(env)}/runtime-{uid}/{NAME}"


def short_dir() -> str:
    """The private folder for sockets whose runtime folder is too deep."""
    return f"/tmp/{NAME}-{os.geteuid()}"  # noqa: S108 (made 0700 and checked before use)


def user_home(env: Mapping[str, str]) -> str:
    """HOME when it is absolute, else the password database's."""
    home = env.get("HOME", "")
    if home[:1] == "/":
        return home.rstrip("/")
    import pwd  # rare: only without a usable HOME

    try:
        return pwd.getpwuid(os.getuid()).pw_dir.rstrip("/")
    except KeyError:
        raise AddressError("no home folder: set HOME or HERMES_HOME to an absolute path") from None


def ensure_private_dir(path: str) -> None:
    """Make `path` with mode 0700 where it is missing; AddressError where others could reach into it.

    Another user may have made a predictable name first, so owner and mode are checked every time, and those of the
    folder above: who owns that can put another in its place.
    """
    try:
        _make_private(path)
    except OSError as error:
        raise AddressError(f"cannot make the runtime folder {path}: {error.strerror}; set XDG_RUNTIME_DIR") from None
    found, above = os.lstat(path), os.stat(os.path.dirname(path))
    uid = os.geteuid()
    problem = ""
    if found.st_mode & 0o170000 != 0o040000:
        problem = "is not a folder"
    elif found.st_uid != uid:
        problem = f"belongs to uid {found.st_uid}, not to you (uid {uid})"
    elif found.st_mode & 0o022:
        problem = f"can be written by others (mode {found.st_mode & 0o777:04o}, expected 0700)"
    elif above.st_uid not in (0, uid):
        problem = f"lies in a folder of uid {above.st_uid}"
    elif above.st_mode & 0o022 and not above.st_mode & 0o1000:
        problem = f"lies in a folder that others can write (mode {above.st_mode & 0o777:04o})"
    if problem:
        raise AddressError(f"the runtime folder {path} {problem}; remove it or set XDG_RUNTIME_DIR to a private folder")


def _make_private(path: str) -> None:
    if os.path.lexists(path):
        return
    _make_private(os.path.dirname(path))
    try:
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)  # the umask may have narrowed it
    except FileExistsError:
        pass  # another client was faster


def ensure_home(address: Address) -> None:
    """Make the home and its logs folder, private to the user, where they are missing."""
    # A folder at a time: makedirs gives the ones between the umask's rights.
    above = (address.root, os.path.dirname(address.home)) if address.profile else ()
    for path in (*above, address.home, os.path.dirname(address.log_path)):
        try:
            os.makedirs(path, 0o700, exist_ok=True)
        except OSError as error:
            raise AddressError(f"cannot make the home folder {path}: {error.strerror}; set HERMES_HOME") from None


def digest(text: str) -> str:
    """The first 12 hex digits of SHA-256 over the UTF-8 of `text`; any language's client computes the same."""
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]  # hashlib loads OpenSSL first: 5 ms for one hash
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found]  # its name before Python 3.12
        except ImportError:
            from hashlib import sha256
    return str(sha256(os.fsencode(text)).hexdigest()[:12])


def _absolute(env: Mapping[str, str], name: str) -> str:
    value = env.get(name, "")
    return value if value[:1] == "/" else ""


def _private(path: str, *, missing_ok: bool) -> bool:
    """Whether `path` is a real folder of this user with mode 0700, as the XDG specification demands."""
    try:
        found = os.lstat(path.rstrip("/") or "/")
    except FileNotFoundError:
        return missing_ok
    except OSError:
        return False
    return found.st_mode & 0o170777 == 0o040700 and found.st_uid == os.geteuid()


def _temporary(env: Mapping[str, str]) -> str:
    for path in (*(_absolute(env, name) for name in ("TMPDIR", "TEMP", "TMP")), "/tmp", "/var/tmp"):  # noqa: S108
        if path and os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK):
            return path.rstrip("/")
    raise AddressError("no writable temporary folder for the socket: set XDG_RUNTIME_DIR to a private folder")
