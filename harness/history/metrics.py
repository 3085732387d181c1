"""What nodes reported of themselves while a run went on: `metrics.parquet`, by node and metric when
which value came. No verdict depends on it.

Samples are taken twice a second, by the core (`Target.metrics`) or by a sampler beside a node's
process, whose log `Target.sampler` names. A line of that log is a time on the host's monotonic
clock, `!` or nothing, and the NAME=NUMBER of what has changed, each after a tab, and ends with a
tab and a full stop, or it was cut off. After `!` all is named that there is; NAME= has no value any
more. Names are those of Prometheus' series.

Besides, every node has the metric `up`, as Prometheus has it: 0 from half a second after a sample
on which none followed for 2 s. Its last row is where the run ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HistoryError
from harness.history.parquet_writer import packed, table_of
from harness.history.run_folder import RunDir, write_atomically

PERIOD_S: Final = 0.5
_GAP_NS: Final = 2_000_000_000
_NEXT_NS: Final = int(PERIOD_S * 1e9)
UP: Final = "up"
SCHEMA: Final = pa.schema(
    [
        pa.field("node", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("name", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("value", pa.float64()),
    ]
)


class Sample(NamedTuple):
    """What a node reported at an instant; with `all`, what is not named is not there."""

    time_ns: int
    values: Mapping[str, float | None]
    all: bool = True


def samples_of(log: bytes) -> Iterator[Sample]:
    """The samples in a sampler's log; damaged lines are left out."""
    for line in log.decode("utf-8", "replace").splitlines():
        time, *rest = line.split("\t")
        if len(rest) < 2 or rest[-1] != "." or not time.isdigit():
            continue
        values = dict[str, float | None]()
        for cell in rest[1:-1]:
            name, _, number = cell.rpartition("=")
            try:
                values[name] = float(number) if number else None
            except ValueError:
                continue
        yield Sample(int(time), values, all=rest[0] == "!")


def write_metrics(rundir: RunDir, samples: Mapping[str, Iterable[Sample]], end_ns: int) -> None:
    """Write the samples of nodes, in order and on the run's clock, up to an end; nothing if there
    are none. Raises EnvironmentFailure."""
    rows = [
        (node, time_ns, name, value)
        for node, each in samples.items()
        for time_ns, name, value in sorted(_changes(each, end_ns), key=itemgetter(1))
    ]
    if rows:
        write_atomically(rundir.metrics, packed(table_of(rows, SCHEMA).cast(SCHEMA)))


def _changes(samples: Iterable[Sample], end_ns: int) -> Iterator[tuple[int, str, float | None]]:
    values, written = dict[str, float | None](), dict[str, float | None]()
    last_ns: int | None = None

    def down(last_ns: int) -> Iterator[tuple[int, str, float | None]]:
        del written[UP]
        yield last_ns + _NEXT_NS, UP, 0.0
        yield from ((last_ns + _NEXT_NS, name, None) for name in written)
        written.clear()

    for sample in samples:
        if sample.time_ns > end_ns:
            break
        if last_ns is not None and sample.time_ns - last_ns > _GAP_NS:
            yield from down(last_ns)
        if UP not in written:
            written[UP] = 1.0
            yield sample.time_ns, UP, 1.0
        if sample.all:
            values = dict.fromkeys(values)
        values |= sample.values
        for name, value in values.items():
            if written.get(name) != value:
                written[name] = value
                yield sample.time_ns, name, value
        last_ns = sample.time_ns
    if last_ns is not None:
        if end_ns - last_ns > _GAP_NS:
            yield from down(last_ns)
        yield end_ns, UP, float(UP in written)


Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One metric of one node: what it was from each of these times on (NaN: nothing)."""

    name: str
    node: str
    labels: Mapping[str, str]
    times_s: Floats
    values: Floats

    def at(self, times_s: Floats) -> Floats:
        """Its values at these times."""
        place = np.searchsorted(self.times_s, times_s, side="right") - 1
        return np.where(place < 0, np.nan, self.values[place])


@dataclass(frozen=True)
class Metrics:
    """The metrics of a run, by `canonical` names."""

    series: Mapping[str, tuple[Series, ...]]

    @property
    def end_s(self) -> float:
        """When the run ended."""
        return max(float(each.times_s[-1]) for each in self.series[UP])


_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


def canonical(name: str) -> str:
    """What exporters name one MBean in many ways: without case, underscores and the words that say
    which attribute it is (`..._IsrShrinksPerSec_Count`, `..._isrshrinks_total`)."""
    plain = re.sub(r"[_:.-]", "", name.lower().replace("_total_", "_"))
    return re.sub(r"(?<=.)(?:persec|total|count|value)+$", "", plain)


def read_metrics(rundir: RunDir) -> Metrics | None:
    """The metrics of a run, or of the run of a cell; `None` if it has none. Raises HistoryError."""
    path = rundir.of_run.metrics
    if not path.exists():
        return None
    try:
        table = pq.ParquetFile(path).read(columns=SCHEMA.names).cast(SCHEMA)  # without pandas
    except (OSError, ValueError, pa.ArrowException) as error:
        raise HistoryError(f"cannot be read: {error}", file=str(path)) from error
    grouped: dict[tuple[str, str], tuple[list[int], list[float]]] = {}
    columns = (table[name].to_pylist() for name in SCHEMA.names)
    for node, time_ns, name, value in zip(*columns, strict=True):
        times, values = grouped.setdefault((name, node), ([], []))
        times.append(time_ns)
        values.append(np.nan if value is None else value)
    if not any(name == UP for name, _ in grouped):
        raise HistoryError("does not say which nodes were up", file=str(path))
    found: dict[str, list[Series]] = {}
    for (name, node), (times, values) in grouped.items():
        plain, _, rest = name.partition("{")
        labels = {"instance": node, **dict(_LABEL.findall(rest))}
        seconds = np.array(times, np.float64) / 1e9
        series = Series(name, node, labels, seconds, np.array(values, np.float64))
        found.setdefault(canonical(plain), []).append(series)
    return Metrics({name: tuple(each) for name, each in found.items()})
