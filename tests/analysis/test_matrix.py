"""The places of cells in the matrix."""

from __future__ import annotations

import itertools

from analysis.tables import ACROSS, Head, matrix


def keys(axes: dict[str, list[str]]) -> list[dict[str, str]]:
    return [dict(zip(axes, labels, strict=True)) for labels in itertools.product(*axes.values())]


THREE = {"unclean": ["true", "false"], "min_isr": ["1", "2", "3"], "acks": ["1", "all"]}


def test_the_last_axis_goes_across_and_the_others_down_in_groups() -> None:
    axes = {**THREE, "faults": ["aphyr", "kill", "storm"]}
    table = matrix(axes, keys(axes))
    assert (table.down, table.across) == (("unclean", "min_isr", "acks"), "faults")
    assert table.columns == ("aphyr", "kill", "storm")
    assert len(table.rows) == 12
    assert table.rows[0].heads == (
        Head("unclean", "true", 6), Head("min_isr", "1", 2), Head("acks", "1", 1),
    )  # fmt: skip
    assert table.rows[1].heads == (Head("acks", "all", 1),)
    assert table.rows[6].heads[0] == Head("unclean", "false", 6)
    assert table.in_order == list(range(36))


def test_an_excluded_combination_has_a_place_and_no_cell() -> None:
    kept = [key for key in keys(THREE) if key != {"unclean": "true", "min_isr": "2", "acks": "1"}]
    table = matrix(THREE, kept)
    assert table.rows[1].cells == (None, 2)
    assert sorted(table.in_order) == list(range(11))


def test_a_row_without_any_cell_is_no_row_and_heads_count_the_others() -> None:
    kept = [key for key in keys(THREE) if (key["unclean"], key["min_isr"]) != ("true", "2")]
    table = matrix(THREE, kept)
    assert [row.labels for row in table.rows][:3] == [("true", "1"), ("true", "3"), ("false", "1")]
    assert table.rows[0].heads[0] == Head("unclean", "true", 2)


def test_an_axis_that_is_too_long_goes_down() -> None:
    versions = [f"4.{n}" for n in range(ACROSS + 1)]
    alone = matrix({"version": versions}, keys({"version": versions}))
    assert (alone.down, alone.across, len(alone.rows)) == (("version",), None, ACROSS + 1)
    axes = {"acks": ["1", "all"], "version": versions}
    both = matrix(axes, keys(axes))
    assert (both.down, both.across) == (("version",), "acks")
    assert both.rows[1].cells == (1, ACROSS + 2)


def test_a_campaign_without_axes_is_one_cell() -> None:
    table = matrix({}, [{}])
    assert (table.down, table.across, table.in_order) == ((), None, [0])
