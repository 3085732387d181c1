"""Who led and who was in sync over time, and who only believed that it led.

Every node is asked directly, several times a second, and answers differ: one that is cut off goes
on saying "leader 3, ISR {3}" for ever. The rule (Kafka's own: leader epochs only ever grow):

- the *quorum's view* at an instant is the answer with the highest leader epoch heard so far;
- within an epoch the leader's own answer decides, as it is the one that shrinks and grows the ISR;
  where the leader is silent for `HOLD_S`, the newest answer of the others;
- a view holds until the next one, so differing answers leave no gaps; it stops holding when
  nobody has answered for `HOLD_S`: then who led is not known, and is shown so;
- a node *believes* that it leads where it goes on naming itself with an epoch that has been
  overtaken by another leader's; it has believed so since it was overtaken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.columns import MISSING, codes, integers, tables
from harness.history.run_folder import RunDir

HOLD_S: Final = 3.0
"""How long an answer speaks for its node when no newer one comes."""

_COLUMNS = (
    "time_ns", "answered_by", "partition", "leader", "leader_epoch", "isr", "controller",
    "controller_epoch",
)  # fmt: skip


@dataclass(frozen=True)
class Leadership:
    """What the observer saw, as intervals in seconds since the run's start.

    `views`: `partition, from_s, to_s, leader (None: none), epoch, isr (a tuple of names)`.
    `beliefs`: `partition, node, from_s, to_s, epoch`.
    `controllers`: `from_s, to_s, controller`.
    """

    views: pd.DataFrame
    beliefs: pd.DataFrame
    controllers: pd.DataFrame

    @property
    def partitions(self) -> list[int]:
        return sorted(int(p) for p in self.views["partition"].unique())


def observations(run: RunDir) -> pd.DataFrame:
    """The observer's rows in the order of time, `time_s` in seconds.

    `isr` is its members joined by commas, a null text is None, a null number MISSING.
    """
    pieces = [_observed(table) for table in tables(run.parts(run.observations), _COLUMNS)]
    if not pieces:
        return _observed(pa.table({}))
    table = pd.concat(pieces, ignore_index=True)
    return table.sort_values("time_s", kind="stable", ignore_index=True)


def _observed(table: pa.Table) -> pd.DataFrame:
    if "isr" in table.column_names:
        members = table.column("isr").cast(pa.list_(pa.string()))
        joined = pc.fill_null(pc.binary_join(members, ","), "")
        table = table.set_column(table.column_names.index("isr"), "isr", joined)
    text = {}
    for name in ("answered_by", "leader", "isr", "controller"):
        numbers, names = codes(table, name)
        text[name] = np.array([*names, None], dtype=object)[numbers]
    return pd.DataFrame(
        {
            "time_s": integers(table, "time_ns") / 1e9,
            "partition": integers(table, "partition"),
            "leader_epoch": integers(table, "leader_epoch"),
            "controller_epoch": integers(table, "controller_epoch"),
            **text,
        }
    )


def leadership(rows: pd.DataFrame, *, end_s: float) -> Leadership:
    """The intervals that follow from the observer's rows; nothing reaches beyond `end_s`."""
    views, beliefs = [], []
    for partition, told in rows[rows["partition"] != MISSING].groupby("partition", sort=True):
        seen = _views(told, end_s=end_s)
        views.append(seen.assign(partition=partition))
        beliefs.append(_beliefs(told, seen, end_s=end_s).assign(partition=partition))
    return Leadership(
        views=_joined(views, ["partition", "from_s", "to_s", "leader", "epoch", "isr"]),
        beliefs=_joined(beliefs, ["partition", "node", "from_s", "to_s", "epoch"]),
        controllers=_controllers(rows, end_s=end_s),
    )


def _joined(frames: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    full = [frame for frame in frames if len(frame)]
    if not full:
        return pd.DataFrame(columns=columns)
    return pd.concat(full, ignore_index=True)[columns]


def _views(told: pd.DataFrame, *, end_s: float) -> pd.DataFrame:
    """One partition's views of the quorum."""
    epoch = told["leader_epoch"].to_numpy()
    newest = told[epoch == np.maximum.accumulate(epoch)]
    decides = _decides(newest)
    states = newest.groupby(["leader", "leader_epoch", "isr"], dropna=False, sort=False).ngroup()
    state = states.to_numpy()[decides]
    runs = _runs(newest["time_s"].to_numpy(), state, end_s=end_s)
    said = newest.iloc[decides[runs["first"].to_numpy()]]
    return pd.DataFrame(
        {
            "from_s": runs["from_s"],
            "to_s": runs["to_s"],
            "leader": said["leader"].to_numpy(),
            "epoch": said["leader_epoch"].to_numpy(),
            "isr": [tuple(filter(None, (isr or "").split(","))) for isr in said["isr"]],
        }
    )


def _decides(newest: pd.DataFrame) -> npt.NDArray[np.int64]:
    """For each answer in the newest epoch, the place of the answer that decides at its time."""
    time_s, epoch = newest["time_s"].to_numpy(), newest["leader_epoch"].to_numpy()
    own = (newest["answered_by"] == newest["leader"]).to_numpy()
    last_own = _latest(own)
    heard = (last_own >= 0) & (epoch[last_own] == epoch) & (time_s - time_s[last_own] <= HOLD_S)
    return _latest(own | ~heard)


def _latest(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """For each place, the latest place up to it where the mask holds, or -1."""
    places = np.where(mask, np.arange(len(mask)), -1)
    return np.maximum.accumulate(places)


def _beliefs(told: pd.DataFrame, views: pd.DataFrame, *, end_s: float) -> pd.DataFrame:
    """One partition's intervals in which a node claims to lead while another one does."""
    found = []
    for node, answers in told.groupby("answered_by", sort=True):
        claim = np.where(answers["leader"] == node, answers["leader_epoch"], MISSING)
        runs = _runs(answers["time_s"].to_numpy(), claim, end_s=end_s)
        for first, from_s, to_s, last_s in runs.itertuples(index=False):
            # Between two answers nobody knows when a node learnt that it was overtaken: only one
            # that claims to lead *after* that moment shows a belief.
            over = views[(views["leader"] != node) & (views["epoch"] > claim[first])]
            over = over[(over["to_s"] > from_s) & (over["from_s"] < to_s)]
            if claim[first] != MISSING and len(over) and over["from_s"].iloc[0] <= last_s:
                begin_s = max(from_s, over["from_s"].iloc[0])
                found.append((node, begin_s, min(to_s, over["to_s"].iloc[-1]), int(claim[first])))
    return pd.DataFrame(found, columns=["node", "from_s", "to_s", "epoch"])


def _controllers(rows: pd.DataFrame, *, end_s: float) -> pd.DataFrame:
    """Which controller was active: the answer with the highest controller epoch so far."""
    told = rows[rows["controller"].notna()]
    epoch = told["controller_epoch"].to_numpy()
    newest = told[epoch == np.maximum.accumulate(epoch)] if len(told) else told
    runs = _runs(newest["time_s"].to_numpy(), pd.factorize(newest["controller"])[0], end_s=end_s)
    said = newest["controller"].to_numpy()[runs["first"].to_numpy()]
    return pd.DataFrame({"from_s": runs["from_s"], "to_s": runs["to_s"], "controller": said})


def _runs(
    time_s: npt.NDArray[np.float64], state: npt.NDArray[np.int64], *, end_s: float
) -> pd.DataFrame:
    """Runs of one state in a row of answers: `first` (its place), `from_s`, `to_s`, `last_s`.

    A run lasts until the next one begins, but for at most HOLD_S after its last answer, `last_s`.
    """
    if not len(time_s):
        return pd.DataFrame(
            {"first": np.empty(0, dtype=np.int64), "from_s": [], "to_s": [], "last_s": []}
        )
    silent = np.diff(time_s) > HOLD_S
    first = np.flatnonzero(np.concatenate([[True], (np.diff(state) != 0) | silent]))
    last = np.append(first[1:], len(time_s)) - 1
    follows = np.append(time_s[first[1:]], end_s)
    to_s = np.minimum(np.minimum(follows, time_s[last] + HOLD_S), end_s)
    return pd.DataFrame(
        {"first": first, "from_s": time_s[first], "to_s": to_s, "last_s": time_s[last]}
    )
