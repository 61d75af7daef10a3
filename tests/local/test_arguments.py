"""Command lines."""

from __future__ import annotations

import pytest

from hermes_local.arguments import Command, Option, UsageError, parse

COMMAND = Command(
    "try",
    "",
    ("FIRST", "[SECOND]"),
    (
        Option("query", "", value="TEXT", short="q"),
        Option("dry-run", "", short="n"),
        Option("follow", "", short="f"),
        Option("limit", "", value="N", number=True),
        Option("form", "", value="FORM", choices=("a", "b")),
    ),
)
MANY = Command("many", "", ("ONE", "REST..."))


@pytest.mark.parametrize(
    "words", [["-q", "x", "1"], ["-qx", "1"], ["-q=x", "1"], ["--query", "x", "1"], ["1", "--query=x"]]
)
def test_every_spelling_of_an_option_gives_its_value(words: list[str]) -> None:
    given = parse(COMMAND, words)
    assert given["query"] == "x"
    assert given["first"] == "1"
    assert given["second"] is None
    assert given["dry_run"] is False


def test_switches_join_and_the_last_of_them_may_take_a_value() -> None:
    given = parse(COMMAND, ["-nfqx", "1"])
    assert (given["dry_run"], given["follow"], given["query"]) == (True, True, "x")


def test_after_two_dashes_everything_is_an_argument_and_one_dash_always_is() -> None:
    given = parse(COMMAND, ["-q", "-", "--", "-n", "--limit"])
    assert (given["query"], given["first"], given["second"]) == ("-", "-n", "--limit")


def test_given_again_the_last_one_counts_and_what_may_be_many_is_joined() -> None:
    assert parse(COMMAND, ["-q", "a", "--query", "b", "1"])["query"] == "b"
    serve = Command("serve", "", (), (Option("listen", "", value="URL", short="l", many=True),))
    assert parse(serve, ["--listen", "a,b", "--listen=c", "-ld"])["listen"] == "a,b,c,d"
    assert parse(serve, [])["listen"] is None


def test_the_rest_is_one_or_more_words() -> None:
    assert parse(MANY, ["a", "b", "c"]) == {"one": "a", "rest": ["b", "c"]}
    with pytest.raises(UsageError, match="REST is missing"):
        parse(MANY, ["a"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "FIRST is missing"),
        (["1", "2", "3"], "unexpected argument '3'"),
        (["--quary", "x", "1"], "did you mean --query"),
        (["-x", "1"], "unknown option -x"),
        (["1", "-q"], "-q needs TEXT"),
        (["1", "--limit", "few"], "--limit 'few': expected a number"),
        (["1", "--limit", "-1"], "expected a number of at least 0"),
        (["1", "--limit=inf"], "expected a number"),
        (["1", "--form", "c"], "expected one of a, b"),
        (["1", "--follow=yes"], "--follow takes no value"),
    ],
)
def test_what_does_not_fit_is_said_with_what_was_expected(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(COMMAND, words)
