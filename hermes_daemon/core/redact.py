"""Secrets out of text: what looks like a credential is masked, in results, logs and telemetry alike.

A mask keeps the first 6 and the last 4 characters of a secret of 18 and more, so that people can tell keys apart; a
shorter one is `***`. Masking twice changes nothing. Source code keeps its sense: names, types and placeholders
(`password: str`, `$TOKEN`, `<your key>`) are left alone. It is a safety net, not a security boundary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import quote

_MASKED = re.compile(r"\*{3,}|.{6}\.\.\..{4}")
_SHORT = 18

_PREFIXES = (
    "sk-", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "pk_live_", "whsec_", "ghp_", "gho_", "ghu_", "ghs_",
    "ghr_", "github_pat_", "glpat-", "gldt-", "glrt-", "glsoat-", "glcbt-", "xoxb-", "xoxp-", "xoxa-", "xoxr-",
    "xoxs-", "xoxe-", "xapp-", "AKIA", "ASIA", "ABIA", "ACCA", "AIza", "ya29.", "GOCSPX-", "hf_", "api_org_", "gsk_",
    "xai-", "r8_", "pplx-", "tvly-", "fc-", "npm_", "pypi-AgE", "dckr_pat_", "dop_v1_", "doo_v1_", "dor_v1_",
    "shpat_", "shpca_", "shppa_", "shpss_", "sq0atp-", "sq0csp-", "EAAAE", "lin_api_", "ntn_", "secret_", "figd_",
    "atlasv1-", "hvs.", "hvb.", "hvr.", "s.hvs", "dp.pt.", "dp.st.", "PMAK-", "NRAK-", "glc_", "glsa_", "sntrys_",
    "sntryu_", "SG.", "key-", "mg-", "pat-na1-", "vercel_", "sbp_", "sb_secret_", "AGE-SECRET-KEY-", "ops_", "nvapi-",
    "tskey-", "rubygems_", "cio", "CLOJARS_", "phc_", "phx_", "bb_live_", "bb_test_", "mem0-", "exa-",
)  # fmt: skip
_LEAST = 16
"""Characters a vendor's token has at least, prefix included: below, a prefix such as `key-` is an ordinary word."""

# One pass each over the text: runs of token characters, and words that announce a secret. Everything dearer starts
# only at what these two find, so that the cost stays linear (about 50 ms for a million characters of source code).
_ESCAPE = re.compile(r"[nrtbf]|u[0-9a-fA-F]{4}")
_RUN = re.compile(r"[A-Za-z0-9_\-.]{16,}")
_CUE = re.compile(
    "password|passwd|passphrase|pwd|secret|apikey|api_key|api-key|access_key|accesskey|access-key|private_key|"
    "privatekey|private-key|encryption_key|auth_key|token|credential|authorization|bearer |[?&]sig=|[?&]key=|"
    "x-amz-signature="
)
_STRONG = frozenset({"password", "passwd", "passphrase", "pwd", "secret"})

_NAME_END = r"(?:[_\-]?(?:key|base|access|value|secret|token|hash|\d{1,3})){0,3}s?\\?[\"']?"
_ASSIGNED = re.compile(
    rf"(?i){_NAME_END}[ \t]{{0,4}}(?::=|=>|=(?!=)|:)[ \t]{{0,4}}"
    r"(?:(?P<quote>\\?[\"'])(?P<quoted>[^\"'\n\\]{1,4096})(?P=quote)|(?P<bare>[^\s\"'`,;&|()\[\]{}<>\\]{6,4096}))"
)
_CREDENTIALS = re.compile(
    r"(?i)\\?[\"']?\s{0,3}[:=]\s{0,3}\\?[\"']?(?P<scheme>(?:bearer|basic|token|digest|bot)\s{1,3})?"
    r"(?P<bare>[A-Za-z0-9+/=_\-.~]{8,4096})"
)
_BARE = re.compile(r"(?P<bare>[A-Za-z0-9+/=_\-.~%]{6,4096})")
_CAPITAL_KEY = re.compile(r"_(?:KEY|PASS)[ \t]?=[ \t]?(?P<quote>[\"']?)(?P<bare>[^\s\"'`;&|()<>\\]{6,4096})(?P=quote)")
_USERINFO = re.compile(r"://([^\s/:@\"'<>]{0,256}):([^\s/@\"'<>]{1,256})(?=@[\w.\[-])")
_PEM_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY = re.compile(r"(?:(?:\s|\\n|\d{1,7}\|){0,9}[A-Za-z0-9+/=]{16,})*")
_PEM_MOST = 16_384
_PLACEHOLDER = re.compile(
    r"(?i)[$%].*|.*(?:\$\{|\{\{|%\().*|<.*>|[x*.\-_#]+|str|string|bytes|int|none|null|nil|true|false|yes|no|undefined|"
    r"(?:your|my|the|an?|some|example|dummy|fake|test|change)[_\- ].{0,30}|os\.environ.*|process\.env.*|"
    r"(?:self|this|settings|config|args|env)\.\S*|https?://\S*|\S*\.(?:py|js|ts|md|txt|json|yaml|yml|toml|pem|key)"
)
_CODE_NAME = re.compile(r"[A-Za-z_$][A-Za-z_$]*(?:\.[A-Za-z_$]+)*[:?!]?")


def redact(text: str) -> str:
    """The text with everything masked that looks like a credential."""
    if "PRIVATE KEY-----" in text or "PRIVATE KEY BLOCK-----" in text:
        text = _without_pem_bodies(text)
    if "://" in text:
        text = _USERINFO.sub(lambda match: f"://{match[1]}:{_judged(match[2], strong=True)}", text)
    text = _RUN.sub(_mask_run, text)
    if "_KEY" in text or "_PASS" in text:
        text = _CAPITAL_KEY.sub(_mask_capital, text)
    return _mask_announced(text)


def mask(secret: str) -> str:
    """What is shown of a secret. A mask stays as it is."""
    if _MASKED.fullmatch(secret):
        return secret
    return "***" if len(secret) < _SHORT else f"{secret[:6]}...{secret[-4:]}"


class Redactor:
    """`redact`, and beside it secrets that are known by value: configured keys, passwords from the environment.

    A value of fewer than 6 characters is ignored (it would mask ordinary words); one is also found as JSON or a URL
    writes it.
    """

    def __init__(self, extra: Iterable[str] = ()) -> None:
        forms = {form for value in extra if len(value) >= 6 for form in (value, _in_json(value), quote(value, safe=""))}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._known = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def redact(self, text: str) -> str:
        """The text with known values and everything that looks like a credential masked."""
        if self._known is not None:
            text = self._known.sub(lambda match: mask(match[0]), text)
        return redact(text)

    __call__ = redact


def _in_json(value: str) -> str:
    return json.dumps(value)[1:-1]


def _without_pem_bodies(text: str) -> str:
    pieces: list[str] = []
    at = 0
    while begin := _PEM_BEGIN.search(text, at):
        pieces.append(text[at : begin.end()])
        end = _PEM_END.search(text, begin.end(), begin.end() + _PEM_MOST)
        body = _PEM_BODY.match(text, begin.end())
        at = end.start() if end else body.end() if body else begin.end()
        pieces.append("***" if at > begin.end() else "")
    return "".join(pieces) + text[at:]


def _mask_run(match: re.Match[str]) -> str:
    # In JSON the letter of an escape (`\\n`, `\\u00e9`) stands right before the word.
    escape = _ESCAPE.match(match[0]) if match.string[match.start() - 1 : match.start()] == "\\" else None
    lead = escape.end() if escape else 0
    run = match[0][lead:].rstrip(".")
    vendor = run.startswith(_PREFIXES) and len(run) >= _LEAST and _random(run)
    token = run.startswith("eyJ") and "." in run
    return match[0][:lead] + mask(run) + match[0][lead + len(run) :] if vendor or token else match[0]


def _random(run: str) -> bool:
    """Whether a run with a vendor's prefix can be a token: words joined by hyphens or dots are not."""
    return any(character.isdigit() for character in run) or re.search(r"[A-Z][a-z]+[A-Z]", run) is not None


def _mask_capital(match: re.Match[str]) -> str:
    start, end = match.start("bare") - match.start(), match.end("bare") - match.start()
    return match[0][:start] + _judged(match["bare"], strong=False) + match[0][end:]


def _mask_announced(text: str) -> str:
    """Mask what follows a word that announces a secret: an assignment, a header, a query parameter."""
    pieces: list[str] = []
    at = 0
    for cue in _CUE.finditer(_lower(text)):
        if cue.start() < at:
            continue
        word = cue[0]
        if word == "authorization":
            found = _CREDENTIALS.match(text, cue.end())
        elif word.endswith(("=", " ")):
            found = _BARE.match(text, cue.end())
        else:
            found = _ASSIGNED.match(text, cue.end())
        if found is None:
            continue
        quoted = found.groupdict().get("quoted")
        group = "bare" if quoted is None else "quoted"
        scheme = found.groupdict().get("scheme") is not None
        masked = _judged(found[group], strong=word in _STRONG, surely=scheme, quoted=quoted is not None)
        pieces += (text[at : found.start(group)], masked)
        at = found.end(group)
    return "".join(pieces) + text[at:]


def _lower(text: str) -> str:
    """Lower case of the same length: one capital (İ) becomes two characters, which would shift every position."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else text.replace("\u0130", "I").lower()


def _judged(value: str, *, strong: bool, surely: bool = False, quoted: bool = False) -> str:
    """The value that follows such a word, masked unless it is a placeholder, a type or a name of code.

    A `strong` word (password, secret) needs no digit in a quoted value; a bare value needs something no name has.
    `surely` is for what stands behind the scheme of an Authorization header.
    """
    if _MASKED.fullmatch(value) or _PLACEHOLDER.fullmatch(value) or value.isdigit():
        return value
    if surely:
        return mask(value)
    has_digit = any(character.isdigit() for character in value)
    if quoted:
        return mask(value) if " " not in value and (has_digit or strong) else value
    plain = _CODE_NAME.fullmatch(value) is not None or not (has_digit or strong)
    return value if plain else mask(value)
