"""tsc, the real one, takes the generated types, and holds a program to them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from protocol.generate import ROOT

pytestmark = pytest.mark.real
RIGHT = """\
import { ERROR_CODES, Event, KnownEvent, Methods, PROTOCOL_VERSION, SubmitParams } from "./hermes";
const params: SubmitParams = { sessionId: "s", key: "k", input: [{ type: "text", text: "hi" }], whenBusy: "steer" };
function ask<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Methods[M]["result"] | undefined {
  return method && params ? undefined : undefined;
}
const result = ask("hermes/turn/submit", params);
const turn: string | undefined = result?.turnId;
function told(event: KnownEvent): string {
  return event.kind === "item.delta" ? event.data.text : event.kind === "turn.ended" ? event.data.status : event.epoch;
}
const code: -32046 = ERROR_CODES.already_resolved;
export default [turn, told, code, PROTOCOL_VERSION, {} as Event];
"""
WRONG = {
    "a word that is none": ('whenBusy: "steer"', 'whenBusy: "push"'),
    "a missing field": ('key: "k", ', ""),
    "a number for a text": ('sessionId: "s"', "sessionId: 5"),
    "a method that is none": ('ask("hermes/turn/submit"', 'ask("hermes/turn/submot"'),
    "the data of another kind": ("event.data.text", "event.data.status"),
}


def compiled(folder: Path, programs: dict[str, str]) -> str:
    """What the compiler says of the programs, nothing when it has nothing to say."""
    compiler = Path(os.environ.get("HERMES_TEST_NODE_MODULES", ""), "typescript", "bin", "tsc")
    if not shutil.which("node") or not compiler.is_file():
        pytest.skip("HERMES_TEST_NODE_MODULES names no folder with typescript (npm install typescript)")
    (folder / "hermes.ts").write_text((ROOT / "protocol/schema/hermes.ts").read_text(encoding="utf-8"))
    for name, text in programs.items():
        (folder / name).write_text(text)
    done = subprocess.run(
        ["node", str(compiler), "--noEmit", "--strict", "--target", "es2022", "--module", "es2022",
         "--moduleResolution", "bundler", *programs],
        cwd=folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode == 0) == (done.stdout == "")
    return done.stdout


def test_a_program_that_fits_the_protocol_compiles_and_one_that_does_not_is_refused_where_it_does_not(
    tmp_path: Path,
) -> None:
    programs = {"right.ts": RIGHT}
    for name, (right, wrong) in WRONG.items():
        assert RIGHT.count(right) == 1, name
        programs[f"{name.replace(' ', '-')}.ts"] = RIGHT.replace(right, wrong)
    said = compiled(tmp_path, programs)
    assert "right.ts" not in said, said
    assert "hermes.ts" not in said, said
    assert not [program for program in programs if program != "right.ts" and f"{program}(" not in said], said
