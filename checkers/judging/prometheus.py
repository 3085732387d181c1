"""A user's own alarm rules, as Prometheus has them: a file of rules becomes rules that can be
evaluated over a run (`checkers.judging.alarms`). What is not understood keeps its sentence.

Labels that our metrics do not have (job, cluster, namespace) select everything and group nothing;
`instance` and the usual names of a pod are the node. A metric is found by any of the names that
exporters give it. `promql-parser` reads the expressions.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from checkers.judging.alarms import (
    COMPARISONS,
    RANGES,
    Absent,
    Labels,
    Look,
    Row,
    Rule,
    Vector,
    aggregated,
    compared,
)
from harness.errors import PlanError

_NODE: Final = {"instance", "pod", "kubernetes_pod_name", "host", "hostname", "node"}
_ARITHMETIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
    "^": operator.pow,
}
_AGGREGATIONS: Final = ("sum", "max", "min", "avg", "count")
_DEFAULT_S: Final = 15.0
_ZERO: Final = re.compile(r"None|0+[a-z]*")
"""As many rules have it: `for: 0m` waits no longer than one without it."""

Value = Vector | float
Evaluation = Callable[[Look], Value]


class NotUnderstood(Exception):
    """A part of an expression that is not evaluated here; its text says which."""


def own_rules(file: Path) -> list[Rule]:
    """The alarm rules of a file of Prometheus', or of a PrometheusRule of Kubernetes. A rule that
    is not understood says why when it is evaluated. Raises PlanError for another kind of file."""
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        found = document.get("spec", document)
        rules = [(group, rule) for group in found["groups"] for rule in group["rules"]]
        made = [_rule(group, rule, file) for group, rule in rules]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PlanError(
            f"cannot be read: {' '.join(str(error).split())}", file=str(file)
        ) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        what = str(error) if isinstance(error, ValueError) else "it has another form"
        what = f"a key {error} is missing" if isinstance(error, KeyError) else what
        raise PlanError(
            f"is not a file of Prometheus' alarm rules: {what}",
            file=str(file),
            hint="groups: [{name: ..., rules: [{alert: ..., expr: ..., for: 10s}]}]",
        ) from error
    if not made:
        raise PlanError("holds no rule", file=str(file))
    return made


def _rule(group: Mapping[str, Any], rule: Mapping[str, Any], file: Path) -> Rule:
    import promql_parser

    expression, ranges = " ".join(str(rule["expr"]).split()), [0.0]

    def seconds(key: str, given: Mapping[str, Any], default: float) -> float:
        text = str(given.get(key, ""))
        if not text or _ZERO.fullmatch(text):
            return default
        return promql_parser.parse_duration(text).total_seconds()

    try:
        if "alert" not in rule:
            raise NotUnderstood("a recording rule")
        condition = partial(_vector, compiled(promql_parser.parse(expression), ranges))
    except (NotUnderstood, ValueError) as error:
        condition = partial(_refused, str(error))
    return Rule(
        name=str(rule.get("alert") or rule["record"]),
        source=f"{file.name}: {expression}",
        condition=condition,
        for_s=seconds("for", rule, 0.0),
        scrape_s=seconds("interval", group, _DEFAULT_S),
        range_s=max(ranges),
    )


def _refused(why: str, _: Look) -> Vector:
    raise Absent(f"not understood: {why}")


def _vector(evaluation: Evaluation, look: Look) -> Vector:
    """What is evaluated, as series: a number is one without labels."""
    value = evaluation(look)
    if isinstance(value, list):
        return value
    return [Row({}, np.full(look.times_s.shape, value))]


def compiled(part: Any, ranges: list[float]) -> Evaluation:
    """How a parsed expression is evaluated; `ranges` gets the lengths of the times that it looks
    back. Raises NotUnderstood."""
    inner = partial(compiled, ranges=ranges)
    match type(part).__name__:
        case "NumberLiteral":
            return lambda _: part.val
        case "ParenExpr":
            return inner(part.expr)
        case "UnaryExpr":
            return _each(operator.neg, inner(part.expr))
        case "VectorSelector":
            return _selected(part)
        case "Call":
            return _called(part, ranges)
        case "AggregateExpr":
            return _aggregation(part, inner(part.expr))
        case "BinaryExpr":
            return _binary(part, inner(part.lhs), inner(part.rhs))
    raise NotUnderstood(f"`{part}`")


def _each(function: Callable[[Any], Any], evaluation: Evaluation) -> Evaluation:
    def evaluate(look: Look) -> Value:
        value = evaluation(look)
        if isinstance(value, list):
            return [Row(labels, function(values)) for labels, values in value]
        return float(function(value))

    return evaluate


def _selected(part: Any) -> Callable[[Look], Vector]:
    matchers = [*part.matchers.matchers]
    if part.offset or part.at or part.matchers.or_matchers or not part.name:
        raise NotUnderstood(f"`{part}`")

    def fits(labels: Labels) -> bool:
        return all(
            (
                bool(re.fullmatch(each.value, labels[each.name]))
                if "Re" in str(each.op)
                else each.value == labels[each.name]
            )
            != ("Not" in str(each.op))
            for each in matchers
            if each.name in labels and each.name not in _NODE
        )

    return lambda look: look.select(part.name, fits)


def _called(part: Any, ranges: list[float]) -> Evaluation:
    name, args = part.func.name, part.args
    if name in RANGES and type(args[0]).__name__ == "MatrixSelector":
        selected = _selected(args[0].vector_selector)
        range_s: float = args[0].range.total_seconds()
        ranges.append(range_s)
        return lambda look: look.over(selected(look), range_s, name)
    if name in ("abs", "ceil", "floor"):
        return _each(getattr(np, "fabs" if name == "abs" else name), compiled(args[0], ranges))
    if name == "vector":
        return compiled(args[0], ranges)
    if name == "absent":
        evaluation = compiled(args[0], ranges)

        def absent(look: Look) -> Value:
            every = [values for _, values in _vector(evaluation, look)]
            none = np.all(np.isnan(every), axis=0) if every else np.ones(look.times_s.shape, bool)
            return [Row({}, np.where(none & (look.times_s <= look.end_s), 1.0, np.nan))]

        return absent
    raise NotUnderstood(f"`{part}`")


def _kept(labels: Labels, names: list[str], *, include: bool) -> Labels:
    named = {"instance" if name in _NODE else name for name in names}
    return {name: text for name, text in labels.items() if (name in named) == include}


def _aggregation(part: Any, evaluation: Evaluation) -> Evaluation:
    how, modifier = str(part.op), part.modifier
    if how not in _AGGREGATIONS:
        raise NotUnderstood(f"`{part}`")
    names = list(modifier.labels) if modifier else []
    include = modifier is None or "By" in str(modifier.type)
    return lambda look: aggregated(
        _vector(evaluation, look), how, partial(_kept, names=names, include=include)
    )


def _binary(part: Any, left: Evaluation, right: Evaluation) -> Evaluation:
    sign, modifier = str(part.op), part.modifier
    matching = modifier and modifier.matching
    if modifier and not str(modifier.card).endswith(("OneToOne", "ManyToMany")):
        raise NotUnderstood(f"group_left and group_right in `{part}`")
    names = list(matching.labels) if matching else []
    include = bool(matching) and "Include" in str(matching.type)

    def key(labels: Labels) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(_kept(labels, names, include=include).items()))

    if sign in ("and", "or", "unless"):
        return partial(_set_operation, sign, left, right, key)
    returns_bool = bool(modifier and modifier.return_bool)

    def combined(a: Any, b: Any) -> Any:
        if sign in _ARITHMETIC:
            with np.errstate(all="ignore"):
                return _ARITHMETIC[sign](a, b)
        if returns_bool:
            holds = np.asarray(COMPARISONS[sign](a, b), float)
            return np.where(np.isnan(a) | np.isnan(b), np.nan, holds)
        return compared(a, sign, b)

    def evaluate(look: Look) -> Value:
        a, b = left(look), right(look)
        if isinstance(a, list) and isinstance(b, list):
            others = {key(labels): values for labels, values in b}
            return [
                Row(labels, combined(values, others[key(labels)]))
                for labels, values in a
                if key(labels) in others
            ]
        if isinstance(a, list):
            return [Row(labels, combined(values, b)) for labels, values in a]
        if not isinstance(b, list):
            return float(combined(a, b))
        turned = [Row(labels, combined(a, values)) for labels, values in b]
        if sign in COMPARISONS and not returns_bool:  # the vector's values are kept
            return [
                Row(labels, np.where(np.isnan(new), np.nan, old))
                for (labels, old), (_, new) in zip(b, turned, strict=True)
            ]
        return turned

    return evaluate


def _set_operation(
    sign: str,
    left: Evaluation,
    right: Evaluation,
    key: Callable[[Labels], tuple[tuple[str, str], ...]],
    look: Look,
) -> Value:
    """`or` of a metric that no node has is the other one: rules name an exporter's variants so."""
    sides: list[Vector] = []
    refusals = []
    for side in (left, right):
        try:
            sides.append(_vector(side, look))
        except Absent as error:
            if sign != "or":
                raise
            refusals.append(error)
            sides.append([])
    if len(refusals) == 2:
        raise refusals[0]
    a, b = sides
    there: dict[tuple[tuple[str, str], ...], Any] = {}
    for labels, values in a if sign == "or" else b:
        known = ~np.isnan(values)
        there[key(labels)] = there.get(key(labels), False) | known

    def masked(row: Row, *, when: bool) -> Row:
        holds = there.get(key(row.labels), np.zeros(look.times_s.shape, bool))
        return Row(row.labels, np.where(holds == when, row.values, np.nan))

    if sign == "or":
        return [*a, *(masked(row, when=False) for row in b)]
    return [masked(row, when=sign == "and") for row in a]
