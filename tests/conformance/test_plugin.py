"""The spec mark: what is refused at collection, and what is recorded of a run."""

from __future__ import annotations

import json
from typing import Any

import pytest

PLUGIN = ("-p", "tests.conformance.plugin", "-p", "no:cacheprovider")


def records(pytester: pytest.Pytester) -> dict[str, Any]:
    rows = json.loads((pytester.path / "spec.json").read_text(encoding="utf-8"))
    return {row["test"].rpartition("::")[2]: row for row in rows}


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (
            'spec("T-CONN-999")',
            "*test_mark.py::test_it: unknown requirement 'T-CONN-999' (did you mean T-CONN-*",
        ),
        (
            'spec("T-HDR-001", "T-HDR-002", "T-HDR-003", "T-HDR-004", "T-HDR-005")',
            "*test_mark.py::test_it: 5 requirements on one test; at most 4: T-HDR-001, *",
        ),
        ("spec()", "*test_mark.py::test_it: a spec mark names requirements*"),
        ('spec(id="T-HDR-001")', "*test_mark.py::test_it: a spec mark names requirements*"),
    ],
)
def test_a_wrong_mark_stops_the_run(mark: str, message: str, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_mark=f"import pytest\n@pytest.mark.{mark}\ndef test_it(): raise AssertionError('it ran')\n"
    )
    result = pytester.runpytest_inprocess(*PLUGIN)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: wrong spec marks:", message])
    result.stdout.no_fnmatch_line("*it ran*")


def test_a_wrong_mark_stops_even_a_run_that_would_deselect_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_mark="""
        import pytest
        @pytest.mark.spec("T-NO-001")
        def test_it(): pass
        def test_other(): pass
        """
    )
    assert pytester.runpytest_inprocess(*PLUGIN, "-k", "other").ret == pytest.ExitCode.USAGE_ERROR


def test_marks_of_class_function_and_parameter_add_up(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_mark="""
        import pytest
        @pytest.mark.spec("T-HDR-001")
        class TestIt:
            @pytest.mark.spec("T-HDR-002", "T-HDR-001")
            @pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.spec("T-HDR-003"))])
            def test_it(self, n): pass
        """
    )
    assert pytester.runpytest_inprocess(*PLUGIN, "--spec-report", "spec.json").ret == 0
    found = records(pytester)
    assert found["test_it[1]"]["ids"] == ["T-HDR-001", "T-HDR-002"]
    assert sorted(found["test_it[2]"]["ids"]) == ["T-HDR-001", "T-HDR-002", "T-HDR-003"]


def test_outcomes_are_recorded_over_all_phases(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_mark="""
        import pytest
        spec = pytest.mark.spec("T-HDR-001")
        @pytest.fixture
        def broken_teardown():
            yield
            raise RuntimeError
        @pytest.fixture
        def broken_setup(): raise RuntimeError
        @spec
        def test_passes(): pass
        @spec
        def test_fails(): assert False
        @spec
        @pytest.mark.skip(reason="because")
        def test_skipped(): pass
        @spec
        @pytest.mark.xfail
        def test_expected_to_fail(): assert False
        @spec
        def test_setup(broken_setup): pass
        @spec
        def test_teardown(broken_teardown): pass
        def test_unmarked(): pass
        """
    )
    pytester.runpytest_inprocess(*PLUGIN, "--spec-report", "spec.json")
    assert {name: row["outcome"] for name, row in records(pytester).items()} == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_skipped": "skipped",
        "test_expected_to_fail": "skipped",
        "test_setup": "failed",
        "test_teardown": "failed",
    }


def test_the_line_of_the_test_is_recorded(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_mark="import pytest\n\n\n@pytest.mark.spec('T-HDR-001')\ndef test_it(): pass\n")
    pytester.runpytest_inprocess(*PLUGIN, "--spec-report", "spec.json")
    assert (records(pytester)["test_it"]["file"], records(pytester)["test_it"]["line"]) == ("test_mark.py", 4)
