"""Who led and who was in sync over time, and which node only believed that it led.

The observer queries every node several times a second, and the answers differ: an isolated node
keeps answering "leader 3, ISR {3}". These rules decide, since leader epochs only ever grow:

- The *quorum's view* at an instant is the answer with the highest leader epoch so far.
- Within an epoch the answer of the leader itself decides, as the leader shrinks and grows the ISR.
  If the leader has been silent for `HOLD_S`, the newest answer of another node decides.
- A view holds until the next one, so differing answers leave no gap. It ends when no node has
  answered for `HOLD_S`: from then on the leader is not known, and the page shows a gap.
- A node *believes* that it leads while it names itself with an epoch that another leader has
  overtaken. The belief begins when the node is overtaken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from harness.history import MEMBERS
from harness.history.parquet_reader import decoded, integers, texts
from harness.history.run_folder import RunDir
from harness.protocols.runs import NULL

HOLD_S: Final = 3.0
"""How long an answer holds for its node when no newer answer follows."""

_NUMBERS = ("partition", "leader_epoch", "controller_epoch")
_TEXTS = ("answered_by", "leader", "controller")
_COLUMNS = ("time_ns", MEMBERS, *_NUMBERS, *_TEXTS)


@dataclass(frozen=True)
class Leadership:
    """What the observer saw, as intervals in seconds since the run's start.

    `views`: `partition, from_s, to_s, leader (None: none), epoch, members (a tuple of names)`.
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
    """The observer's rows in the order of time; `time_s` is in seconds.

    `members` is a string of names joined by commas. A missing text is None, a missing number NULL.
    """
    frames = list(decoded(run.parts(run.observations), _COLUMNS, _observations))
    if not frames:
        columns = ["time_s", *_NUMBERS, *_TEXTS, "members"]
        return pd.DataFrame({name: np.empty(0) for name in columns})
    return pd.concat(frames).sort_values("time_s", kind="stable", ignore_index=True)


def _observations(batch: pa.RecordBatch) -> pd.DataFrame:
    lists = batch[MEMBERS].cast(pa.list_(pa.string()))
    in_sync = pc.fill_null(pc.binary_join(lists, ","), "").dictionary_encode()
    members = np.array(in_sync.dictionary.to_pylist(), dtype=object)[in_sync.indices.to_numpy()]
    return pd.DataFrame(
        {
            "time_s": integers(batch, "time_ns") / 1e9,
            **{name: integers(batch, name) for name in _NUMBERS},
            **{name: texts(batch, name).objects() for name in _TEXTS},
            "members": members,
        }
    )


def leadership(rows: pd.DataFrame, *, end_s: float) -> Leadership:
    """The intervals that follow from the observer's rows; none reaches beyond `end_s`."""
    views, beliefs = [], []
    for partition, answers in rows[rows["partition"] != NULL].groupby("partition", sort=True):
        seen = _views(answers, end_s=end_s)
        views.append(seen.assign(partition=partition))
        beliefs.append(_beliefs(answers, seen, end_s=end_s).assign(partition=partition))
    return Leadership(
        views=_joined(views, ["partition", "from_s", "to_s", "leader", "epoch", "members"]),
        beliefs=_joined(beliefs, ["partition", "node", "from_s", "to_s", "epoch"]),
        controllers=_controllers(rows, end_s=end_s),
    )


def _joined(frames: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    full = [frame for frame in frames if len(frame)]
    if not full:
        return pd.DataFrame(columns=columns)
    return pd.concat(full, ignore_index=True)[columns]


def _views(answers: pd.DataFrame, *, end_s: float) -> pd.DataFrame:
    """The quorum's views of one partition."""
    epoch = answers["leader_epoch"].to_numpy()
    newest = answers[epoch == np.maximum.accumulate(epoch)]
    decides = _decides(newest)
    states = newest.groupby(
        ["leader", "leader_epoch", "members"], dropna=False, sort=False
    ).ngroup()
    state = states.to_numpy()[decides]
    runs = _runs(newest["time_s"].to_numpy(), state, end_s=end_s)
    deciding = newest.iloc[decides[runs["first"].to_numpy()]]
    return pd.DataFrame(
        {
            "from_s": runs["from_s"],
            "to_s": runs["to_s"],
            "leader": deciding["leader"].to_numpy(),
            "epoch": deciding["leader_epoch"].to_numpy(),
            "members": [
                tuple(filter(None, (members or "").split(","))) for members in deciding["members"]
            ],
        }
    )


def _decides(newest: pd.DataFrame) -> npt.NDArray[np.int64]:
    """For each answer in the newest epoch, the index of the answer that decides at its time."""
    time_s, epoch = newest["time_s"].to_numpy(), newest["leader_epoch"].to_numpy()
    own = (newest["answered_by"] == newest["leader"]).to_numpy()
    last_own = _latest(own)
    heard = (last_own >= 0) & (epoch[last_own] == epoch) & (time_s - time_s[last_own] <= HOLD_S)
    return _latest(own | ~heard)


def _latest(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """For each index, the latest index up to it where the mask holds, or -1."""
    places = np.where(mask, np.arange(len(mask)), -1)
    return np.maximum.accumulate(places)


def _beliefs(answers: pd.DataFrame, views: pd.DataFrame, *, end_s: float) -> pd.DataFrame:
    """The intervals of one partition in which a node claims to lead while another node leads."""
    found = []
    for node, own in answers.groupby("answered_by", sort=True):
        claim = np.where(own["leader"] == node, own["leader_epoch"], NULL)
        runs = _runs(own["time_s"].to_numpy(), claim, end_s=end_s)
        for first, from_s, to_s, last_s in runs.itertuples(index=False):
            # A node may learn between two answers that it was overtaken. Only a node that claims
            # to lead *after* it was overtaken shows a belief.
            over = views[(views["leader"] != node) & (views["epoch"] > claim[first])]
            over = over[(over["to_s"] > from_s) & (over["from_s"] < to_s)]
            if claim[first] != NULL and len(over) and over["from_s"].iloc[0] <= last_s:
                begin_s = max(from_s, over["from_s"].iloc[0])
                found.append((node, begin_s, min(to_s, over["to_s"].iloc[-1]), int(claim[first])))
    return pd.DataFrame(found, columns=["node", "from_s", "to_s", "epoch"])


def _controllers(rows: pd.DataFrame, *, end_s: float) -> pd.DataFrame:
    """The active controller: the answer with the highest controller epoch so far."""
    answers = rows[rows["controller"].notna()]
    epoch = answers["controller_epoch"].to_numpy()
    newest = answers[epoch == np.maximum.accumulate(epoch)] if len(answers) else answers
    runs = _runs(newest["time_s"].to_numpy(), pd.factorize(newest["controller"])[0], end_s=end_s)
    names = newest["controller"].to_numpy()[runs["first"].to_numpy()]
    return pd.DataFrame({"from_s": runs["from_s"], "to_s": runs["to_s"], "controller": names})


def _runs(
    time_s: npt.NDArray[np.float64], state: npt.NDArray[np.int64], *, end_s: float
) -> pd.DataFrame:
    """Runs of equal states in a sequence of answers: `first` (an index), `from_s`, `to_s`,
    `last_s`.

    A run lasts until the next one begins, but at most HOLD_S after its last answer, `last_s`.
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
