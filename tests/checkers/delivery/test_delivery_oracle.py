"""Random groups against the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkers.delivery import counts_of, explanations, judge_rows
from checkers.delivery.records import rows_of
from harness.protocols import UNEXPLAINED
from harness.protocols.explanations import DELIVERY_CAUSES
from harness.protocols.groups import KINDS, Delivery
from tests.checkers.delivery.hand_made import Made, Record, Write, final, whole_group
from tests.checkers.delivery.oracle import truth
from tests.fixtures.budget import examples

pytestmark = pytest.mark.slow

EXAMPLES = examples(20)
SMALL = st.integers(0, 5)


@st.composite
def groups(draw: st.DrawFn) -> Made:
    """Two consumers of two lives over two partitions do anything, in any order; each instant has
    one row, so that no two rows are equal."""
    partitions = draw(st.integers(1, 2))
    where = st.integers(0, partitions - 1)
    writes = [
        Write(value, draw(where), draw(st.booleans()), draw(st.none() | SMALL), 10 * value)
        for value in range(draw(SMALL))
    ]
    places = draw(st.lists(st.tuples(where, SMALL), unique=True, max_size=8))
    made = Made(
        partitions=partitions,
        writes_=writes,
        log=[Record(p, o, draw(SMALL)) for p, o in places],
        starts={p: draw(st.sampled_from([0, 0, 0, 1, 3])) for p in range(partitions)},
        did=whole_group(),
        whole=draw(st.booleans()),
    )
    time_ns = 0
    kinds = (KINDS.assign, KINDS.deliver, KINDS.deliver, KINDS.process, KINDS.process)
    kinds += (KINDS.commit, KINDS.commit, KINDS.committed, KINDS.position)
    for _ in range(draw(st.integers(0, 30))):
        time_ns += draw(st.integers(1, 9))
        kind = draw(st.sampled_from(kinds))
        begun_ns = time_ns - draw(st.sampled_from([0, 0, 3, 12]))
        row = Delivery(
            *(kind, begun_ns, time_ns),
            consumer=draw(st.sampled_from(["consumer-1", "consumer-2"])),
            life=draw(st.sampled_from([1, 1, 2])),
            partition=draw(where),
            offset=draw(SMALL),
            generation=draw(st.none() | SMALL),
        )
        if kind in (KINDS.deliver, KINDS.process):
            row = row._replace(value=draw(SMALL))
        elif kind == KINDS.commit:
            type_ = draw(st.sampled_from(["ok", "ok", "ok", "info", "fail", "invoke"]))
            if type_ != "invoke" and draw(st.booleans()):
                made.did.append(row._replace(type="invoke", time_ns=begun_ns))
            row = row._replace(type=type_)
        elif kind == KINDS.committed:
            type_ = draw(st.sampled_from(["ok", "ok", "info"]))
            row = row._replace(type=type_, offset=draw(st.none() | SMALL))
        made.did.append(row)
    made.did += [final(p, draw(st.none() | st.integers(0, 8))) for p in range(partitions)]
    return made


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(groups())
def test_every_count_is_that_of_the_definitions(made: Made) -> None:
    found = counts_of(judge_rows(rows_of(made)))
    expected = truth(made)
    assert {name: found[name] for name in expected} == expected


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(groups())
def test_every_skipped_and_every_repeated_delivery_has_exactly_one_cause(made: Made) -> None:
    judged = judge_rows(rows_of(made))
    found: dict[str, list[int]] = {"skipped": [], "reprocessed": []}
    for each in explanations(made.facts, judged.rows, judged.records, judged.commits):
        assert each.cause in {*DELIVERY_CAUSES, UNEXPLAINED}
        found[each.kind] += each.values
    assert sorted(found["skipped"]) == sorted(judged.rows.log.value[judged.records.skipped])
    assert sorted(found["reprocessed"]) == sorted(judged.records.again.value)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(groups())
def test_every_acknowledged_value_is_processed_or_in_one_count(made: Made) -> None:
    judged = judge_rows(rows_of(made))
    written, records, log = judged.rows.written, judged.records, judged.rows.log
    processed = judged.rows.did[KINDS.process].value
    gone = records.gone
    assert sorted(
        [
            *set(written.value.tolist()) & set(processed.tolist()),
            *{*log.value[records.skipped].tolist(), *log.value[records.pending].tolist()},
            *written.value[np.concatenate([gone.lost, gone.purged, gone.beyond])].tolist(),
        ]
    ) == sorted(written.value.tolist())
