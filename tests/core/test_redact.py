import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes_daemon.core.redact import Redactor, mask, redact

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIabcdefghijklmnopqrst\nAAAAAAAAAAAAAAAAAAAAAAAA\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OPENAI_API_KEY=sk-proj-abcdefghijklmnop1234567890", "OPENAI_API_KEY=sk-pro...7890"),
        ("use ghp_abcdefghijklmnopqrstuvwxyz0123456789.", "use ghp_ab...6789."),
        ("7|AKIAIOSFODNN7EXAMPLE", "7|AKIAIO...MPLE"),
        ('export DB_PASSWORD="hunter2hunter2"', 'export DB_PASSWORD="***"'),
        ('{"api_key": "abcd1234efgh"}', '{"api_key": "***"}'),
        (r'"{\"api_key\": \"abcd1234efgh5678\"}"', r'"{\"api_key\": \"***\"}"'),
        ("12|  password: hunter2!x", "12|  password: ***"),
        ("secret_key_base: abcdef0123456789abcdef", "secret_key_base: abcdef...cdef"),
        ("Authorization: Bearer abc.def-ghi123456789", "Authorization: Bearer abc.de...6789"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic ***"),
        ("X-Api-Key: 0123456789abcdef0123", "X-Api-Key: 012345...0123"),
        ("postgres://bob:s3cr3tpw@db.example/x", "postgres://bob:***@db.example/x"),
        ("https://x.example/z?access_token=abcdef123&b=1", "https://x.example/z?access_token=***&b=1"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcDEF123", "eyJhbG...F123"),
        (PEM + "-----END RSA PRIVATE KEY-----\n", "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----\n"),
        (PEM + "and so on", "-----BEGIN RSA PRIVATE KEY-----***\nand so on"),
    ],
)
def test_a_credential_is_masked_and_the_words_around_it_stay(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "password: str | None = None",
        "token = lexer.next_token()",
        "max_tokens: 4096",
        "max_tokens=1048576",
        'api_key=os.environ["X"]',
        "def f(token: Token, secret: SecretStr) -> None",
        'if token == "abc1":',
        "TOKEN=$(cat x)",
        "password: ${DB_PASSWORD}",
        'tokenizer: "gpt2"',
        '"api_key": "<your key here>"',
        "key-value-store-and-other-things",
        "sk-learn-contrib-something",
        "https://example.org/path?x=1",
    ],
)
def test_code_and_placeholders_keep_their_sense(text: str) -> None:
    assert redact(text) == text


def test_a_short_secret_is_hidden_whole_and_a_long_one_keeps_six_and_four() -> None:
    assert mask("a" * 17) == "***"
    assert mask("abcdefghijklmnopqr") == "abcdef...opqr"


pieces = st.sampled_from(
    [
        "password",
        "token",
        "API_KEY",
        ": ",
        "=",
        '"',
        "'",
        "\\",
        " ",
        "\n",
        ".",
        "sk-",
        "ghp_",
        "eyJ",
        "a1b2c3d4e5",
        "Bearer ",
        "Authorization",
        "://",
        "@",
        "x",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----",
        "MIIabcdefghijklmnop",
        "İ",
        "?key=",
    ]
)


@given(st.lists(pieces, max_size=12).map("".join))
@example("İpassword: hunter2!x")
def test_masking_twice_changes_nothing(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@given(st.text(alphabet="abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", min_size=24, max_size=60))
def test_no_vendor_token_survives_whatever_it_holds(tail: str) -> None:
    token = f"ghp_{tail}1"
    assert token not in redact(f'{{"out": "{token}"}}')


def test_known_values_are_masked_wherever_they_stand_also_as_json_and_url_write_them() -> None:
    redactor = Redactor(['pass"word/1', "correct horse"])
    assert redactor.redact('say pass"word/1') == "say ***"
    assert redactor.redact(r'{"x": "pass\"word/1"}') == '{"x": "***"}'
    assert redactor.redact("http://h/?q=pass%22word%2F1") == "http://h/?q=***"
    assert redactor("battery correct horse staple") == "battery *** staple"


def test_a_known_value_that_would_mask_ordinary_words_is_ignored() -> None:
    assert Redactor(["a", ""]).redact("banana") == "banana"


@pytest.mark.parametrize(
    "unit", ["a", "token", "-----BEGIN PRIVATE KEY-----", "eyJ", "://a:", "_KEY=", 'secret:"a', "a."]
)
def test_hostile_repetition_is_read_to_its_end(unit: str) -> None:
    text = unit * (300_000 // len(unit))
    assert redact(text).startswith(unit[:3])


@pytest.mark.parametrize("before", ["\\n", "\\t", "\\u00e9", '"', " "])
def test_a_token_behind_an_escape_of_json_is_found(before: str) -> None:
    token = "ghp_0123456789abcdefghijABCDEFGHIJ456789"
    shown = redact(f'{{"text": "first{before}{token}"}}')
    assert token not in shown
    assert before in shown


def test_a_word_that_only_begins_like_an_escape_is_left_alone() -> None:
    assert redact(r"C:\nsk-old-folder-of-mine\x") == r"C:\nsk-old-folder-of-mine\x"
