"""Settings of a plugin against its schema."""

from typing import Any

import pytest

from hermes_daemon.plugins.config_schema import checked, schema_faults
from hermes_daemon.plugins.manifest import ConfigField


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        (ConfigField("str"), ["", "a"], [1, None, []]),
        (ConfigField("integer"), [0, -3], [True, 1.5, "1"]),
        (ConfigField("float"), [1, 1.5], [True, "1"]),
        (ConfigField("boolean"), [True, False], [0, "yes"]),
        (ConfigField("list", items="str"), [[], ["a"]], [[1], "a"]),
        (ConfigField("dict"), [{}], [[]]),
        (ConfigField("string", choices=("a", "b")), ["a"], ["c"]),
        (ConfigField("number", minimum=0, maximum=1), [0, 0.5, 1], [-0.1, 1.1]),
    ],
)
def test_a_value_fits_or_is_a_problem_at_its_path(field: ConfigField, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        assert checked({"key": field}, {"key": value}) == ({"key": value}, ())
    for value in bad:
        settings, [problem] = checked({"key": field}, {"key": value})
        assert settings == {}
        assert problem.path == "$.key"
        assert problem.severity == "fail"


def test_defaults_stand_for_what_is_missing_or_wrong_and_the_environment_for_secrets() -> None:
    schema = {
        "n": ConfigField("integer", default=3),
        "key": ConfigField("secret", env="MY_KEY", secret=True),
        "must": ConfigField("string", required=True),
    }
    settings, problems = checked(schema, {"n": "x", "nn": 1}, {"MY_KEY": "sk"}.get)
    assert settings == {"n": 3, "key": "sk"}
    assert [(problem.path, problem.severity) for problem in problems] == [
        ("$.nn", "warn"), ("$.n", "fail"), ("$.must", "fail")]  # fmt: skip


def test_a_secret_is_not_repeated() -> None:
    _, [problem] = checked({"key": ConfigField("integer", secret=True)}, {"key": "sk-secret"})
    assert "sk-secret" not in str(problem)


def test_a_schema_with_faults_of_its_own() -> None:
    faults = schema_faults({"a": ConfigField("money"), "b": ConfigField("integer", default="x")})
    assert [fault.path for fault in faults] == ["$.config_schema.a.type", "$.config_schema.b.default"]
