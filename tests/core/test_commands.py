import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.core.commands import parse_line, program_of_last, read_commands


def words(text: str) -> list[list[str]]:
    return [list(command.words) for command in read_commands(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ls -l", [["ls", "-l"]]),
        ("a; b && c || d & e | f\ng", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("""r\\m 'a b' "c d" e\\ f""", [["rm", "a b", "c d", "e f"]]),
        (r"$'\x72\155' x", [["rm", "x"]]),
        ("rm${IFS}-rf${IFS}/x", [["rm", "-rf", "/x"]]),
        ("X='rm -rf'; $X /y", [["rm", "-rf", "/y"]]),
        ("echo a # rm b", [["echo", "a"]]),
        ("echo a#b", [["echo", "a#b"]]),
        ("r\\\nm x", [["rm", "x"]]),
        ("( cd x; ls )", [["cd", "x"], ["ls"]]),
        ("if true; then rm a; fi", [["true"], ["rm", "a"]]),
        ("f() { rm a; }; f", [["f"], ["rm", "a"], ["f"]]),
        ("for x in a b; do rm $x; done", [["rm", "a", "b"]]),
        ("ｒｍ x", [["rm", "x"]]),
        ("echo $((1+2))", [["echo", "$((1+2))"]]),
    ],
)
def test_a_line_is_read_as_the_commands_it_runs(text: str, expected: list[list[str]]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "sh -c 'rm x'",
        "bash -lc 'rm x'",
        "bash -o pipefail -c 'rm x'",
        "sudo -u root rm x",
        "sudo -- rm x",
        "env -i A=b rm x",
        "env -S 'rm x'",
        "nohup nice -n 5 timeout -k 1 9 rm x",
        "eval rm x",
        'eval "rm x"',
        "echo $(rm x)",
        'echo "`rm x`"',
        "cat <(rm x)",
        "echo x | xargs rm",
        "find . -name y -exec rm x ';'",
        "ssh -p 22 host rm x",
        "su root -c 'rm x'",
        "echo 'rm x' | sh",
        "bash <<< 'rm x'",
        "bash <<EOF\nrm x\nEOF\n",
        "bash <<-'EOF'\n\trm x\n\tEOF\n",
        "cat <<EOF\n$(rm x)\nEOF\n",
        "watch -n 1 rm x",
        "trap 'rm x' EXIT",
        "sh -c \"sh -c 'rm x'\"",
        "/bin/busybox rm x",
        "command rm x",
        "exec -a y rm x",
    ],
)
def test_what_another_command_carries_is_found(text: str) -> None:
    assert ["rm", "x"] in [[command.program, *command.words[1:]] for command in read_commands(text)]


@pytest.mark.parametrize(
    "text",
    [
        "echo 'rm x'",
        'echo "rm x; rm x"',
        "cat <<'EOF'\n$(rm x)\nEOF\n",
        "git commit -m 'run rm x'",
        "command -v rm",
    ],
)
def test_what_is_only_spoken_of_is_not(text: str) -> None:
    assert all(command.program != "rm" for command in read_commands(text))


def test_cd_moves_what_follows_and_redirects_are_told() -> None:
    first, second = read_commands("cd /tmp/../srv && ls > out 2>&1 < in", "/home/u/x")
    assert (first.cwd, second.cwd) == ("/home/u/x", "/srv")
    assert [(redirect.operator, redirect.target, redirect.writes) for redirect in second.redirects] == [
        (">", "out", True),
        ("2>&", "1", False),
        ("<", "in", False),
    ]


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("git status", True),
        ("ls > /dev/null", True),
        ("ls > x", False),
        ("ls; ls", False),
        ("ls &", False),
        ("A=b ls", False),
        ("ls $(pwd)", False),
        ("sudo ls", False),
        ("", False),
    ],
)
def test_a_plain_command_is_told_from_a_compound_one(text: str, simple: bool) -> None:
    assert parse_line(text).simple is simple


def test_the_exit_code_belongs_to_the_last_command() -> None:
    assert program_of_last("cd x && /usr/bin/grep y z") == "grep"
    assert program_of_last("echo $(grep x)") == "echo"


@given(st.text(alphabet="abr m/-;|&()<>$`'\"\\\n{}#=*~\x00\x1b", max_size=60))
def test_any_text_is_read_to_its_end(text: str) -> None:
    assert parse_line(text, "/w").scripts


@pytest.mark.parametrize("unit", ["$(", "`", "sh -c '", "((", "{ ", "<<E ", "x|", "a=b "])
def test_hostile_nesting_is_bounded(unit: str) -> None:
    assert len(parse_line(unit * 20_000).commands) < 10_000


@pytest.mark.parametrize(
    "text", ["ls;" * 3000, "echo " + "x" * 140_000, "$(" * 50 + "ls" + ")" * 50, "sudo " * 50 + "ls"]
)
def test_a_line_beyond_what_is_read_says_so(text: str) -> None:
    assert not parse_line(text).whole
