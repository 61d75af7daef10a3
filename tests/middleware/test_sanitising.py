"""What hooks see is bounded and without secrets."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermes_daemon.middleware.sanitising import sanitised

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
)


@given(JSON)
def test_small_payloads_pass_as_they_are(value: Any) -> None:
    def depth(each: Any) -> int:
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        return 1 + max(map(depth, inner), default=0) if isinstance(each, (dict, list)) else 0

    if depth(value) <= 8:
        assert sanitised(value) == value


def test_keys_of_secrets_are_blacked_out_at_any_depth() -> None:
    headers = {"Authorization": "Bearer x", "X-Api-Key": "k", "api_key": "k", "OPENAI_API_KEY": "k", "Set-Cookie": "c"}
    assert set(sanitised({"a": [{"headers": headers}]})["a"][0]["headers"].values()) == {"[REDACTED]"}
    assert sanitised({"monkey": "banana"}) == {"monkey": "banana"}


def test_a_payload_that_is_too_big_is_cut_then_previewed() -> None:
    cut = sanitised({"text": "x" * 30_000, "rows": list(range(1000))})
    assert (len(cut["text"]), len(cut["rows"])) == (8001, 200)
    rows = [{"text": "x" * 5000} for _ in range(200)]
    assert [len(row["text"]) for row in sanitised(rows, total=60_000)] == [1001] * 50
    preview = sanitised(rows, total=1000)
    assert preview["_truncated"]
    assert preview["original_type"] == "list"
    assert len(preview["preview"]) == 1000


def test_depth_is_bounded() -> None:
    value: Any = "deep"
    for _ in range(20):
        value = [value]
    assert "deep" not in str(sanitised(value))
