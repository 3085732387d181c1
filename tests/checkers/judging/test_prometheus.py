"""A user's own rules: what is understood gives what Prometheus gives, and the rest is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml

from checkers.judging.alarms import alarm
from checkers.judging.prometheus import own_rules
from harness.errors import PlanError
from harness.history.documents import Alarm
from harness.history.metrics import Metrics, Series

END_S = 120.0


def series(node: str, *values: float, name: str = "m", **labels: str) -> Series:
    """A value for each 10 s."""
    times = np.arange(len(values)) * 10.0
    return Series(name, node, {"instance": node, **labels}, times, np.array(values, float))


M = (series("b1", 0, 0, 5, 5, 0, topic="t"), series("b2", 1, 1, 1, topic="u"))
METRICS = Metrics(
    {
        "m": M,
        "c": (series("b1", 0, 0, 0, 7, name="c"), series("b2", np.nan, name="c")),
        "up": (series("b1", *([1.0] * 13), name="up"), series("b2", 1, 1, 0, 0, 0, name="up")),
    }
)


def judged(tmp_path: Path, expression: str, **rule: object) -> Alarm:
    file = tmp_path / "rules.yaml"
    each = {"alert": "A", "expr": expression, **rule}
    file.write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": [each]}]}))
    [found] = own_rules(file)
    return alarm(found, METRICS, None)


@pytest.mark.parametrize(
    ("expression", "held_s"),
    [
        ("m > 2", 20),
        ("2 < m", 20),
        ("m == 0", 0),
        ("m > 9", None),
        ('m{topic="u"} > 2', None),
        ('m{topic!="u"} > 2', 20),
        ('m{topic=~"t|x"} > 2', 20),
        ('m{topic!~"t|x"} > 2', None),
        ('m{job="kafka"} > 2', 20),
        ("sum(m) > 5", 20),
        ("sum(m) by (namespace) > 5", 20),
        ("sum by (pod) (m) > 5", None),
        ("max(m) < 1", None),
        ("min without (instance, topic) (m) > 0", 20),
        ("avg(m) == 3", 20),
        ("count(m > 2) == 1", 20),
        ("count(up == 0) > 0", 20),
        ("up == 0", 20),
        ("absent(c == 7)", 0),
        ("absent(c) > 0", None),
        ("increase(c[1m]) > 0", 30),
        ("rate(c_total[1m]) * 60 > 1", 30),
        ("changes(m[30s]) > 1", 40),
        ("resets(m[1m]) > 0", 40),
        ("max_over_time(m[1m]) - 1 > 3", 20),
        ("-m < -2", 20),
        ("m / 2 > 2 and up == 1", None),
        ("m / 2 > 2 and ignoring(topic) up == 1", 20),
        ("m > 2 and on(instance) up == 0", None),
        ("m > 2 unless on(instance) up == 1", None),
        ("not_there > 0 or m > 2", 20),
        ("m > bool 99", 0),
        ("(m > 2) or (c > 6)", 20),
        ("m - on(instance) c > 2", 20),
        ("1 > bool 2", 0),
        ("vector(1)", 0),
    ],
)
def test_what_holds_when(tmp_path: Path, expression: str, held_s: float | None) -> None:
    found = judged(tmp_path, expression)
    assert found.why_not is None
    assert found.held_s == held_s


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("topk(3, m) > 0", "topk"),
        ("m offset 5m > 0", "offset"),
        ("max_over_time(m[5m:1m]) > 0", "5m:1m"),
        ("m + on(topic) group_left c > 0", "group_left"),
        ("histogram_quantile(0.9, m) > 1", "histogram_quantile"),
        ("sum(m", "unclosed"),
        ("1 > 2", "BOOL"),
        ("not_there > 0", "no node reports not_there"),
        ("not_there > 0 or nor_this > 0", "no node reports not_there"),
    ],
)
def test_what_is_not_evaluated_is_named(tmp_path: Path, expression: str, named: str) -> None:
    found = judged(tmp_path, expression)
    assert named in (found.why_not or "")
    assert found.source == f"rules.yaml: {expression}"
    assert (found.held_s, found.fired_s, found.chance) == (None, None, None)


def test_a_recording_rule_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("groups: [{name: g, rules: [{record: r, expr: sum(m)}]}]")
    [found] = [alarm(rule, METRICS, None) for rule in own_rules(file)]
    assert (found.rule, found.why_not) == ("r", "not understood: a recording rule")


def test_for_and_interval(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(
        "spec: {groups: [{name: g, interval: 5s, rules: [{alert: A, expr: m > 2, for: 10s}]}]}"
    )
    [rule] = own_rules(file)
    assert (rule.for_s, rule.scrape_s) == (10, 5)
    assert alarm(rule, METRICS, None).chance == 1
    assert judged(tmp_path, "m > 2", **{"for": "25s"}).chance == 0


@pytest.mark.parametrize("zero", ["0m", "0s", "0", 0])
def test_a_wait_of_nothing_is_none(tmp_path: Path, zero: object) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(
        f"groups: [{{name: g, interval: {zero}, rules: [{{alert: A, expr: m > 2, for: {zero}}}]}}]"
    )
    [rule] = own_rules(file)
    assert (rule.for_s, rule.scrape_s) == (0, 15)
    assert judged(tmp_path, "m > 2", **{"for": "1s"}).fired_s is not None


@pytest.mark.parametrize(
    "text",
    [
        "a: [",
        "a: 1",
        "[1]",
        "",
        "groups: []",
        "groups: [{name: g, rules: [{alert: A}]}]",
        "groups: [{rules: [{alert: A, expr: m, for: soon}]}]",
    ],
)
def test_what_is_no_file_of_rules(tmp_path: Path, text: str) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(text)
    with pytest.raises(PlanError) as raised:
        own_rules(file)
    assert raised.value.file == str(file)
    assert "object" not in raised.value.what
    assert "Error" not in raised.value.what
