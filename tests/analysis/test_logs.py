"""Node logs: the relevant lines in one order of time, cut to a few."""

from __future__ import annotations

from pathlib import Path

from analysis.timeline import EVENTS_AT_MOST, LINES_AT_MOST, LogExcerpt, logged
from harness.history.run_folder import RunDir

START = "2026-01-02T03:04:05+00:00"


def run_with(folder: Path, **nodes: list[bytes]) -> RunDir:
    run = RunDir.create(folder, "run")
    run.write_json(run.plan, {"schema": 1, "target": {"system": "kafka"}})
    for name, lines in nodes.items():
        run.node(name).mkdir()
        (run.node(name) / "server.log").write_bytes(b"\n".join(lines) + b"\n")
    return run


def at(second: str, text: bytes) -> bytes:
    return b"[2026-01-02 03:04:" + second.encode() + b"] " + text


def excerpt(run: RunDir) -> LogExcerpt:
    return logged(run, wall_time=START, end_s=30)


def test_relevant_lines_of_all_nodes_in_one_order(tmp_path: Path) -> None:
    run = run_with(
        tmp_path,
        b1=[at("05,500", b"INFO starting"), at("15,250", b"WARN Truncating ackloss-0 to offset 7")],
        c1=[
            at("09,000", b"INFO Fencing broker 2"),
            at("12,000", b"DEBUG Replayed partition change for x"),
        ],
    )
    lines = [(line.at_s, line.node, line.text) for line in excerpt(run).lines]
    assert lines == [
        (4.0, "c1", "INFO Fencing broker 2"),
        (10.25, "b1", "WARN Truncating ackloss-0 to offset 7"),
    ]


def test_only_lines_from_the_time_of_the_run(tmp_path: Path) -> None:
    shrunk = b"INFO Shrinking ISR from 1,2 to 1"
    run = run_with(tmp_path, b1=[at("04,999", shrunk), at("06,000", shrunk), at("36,000", shrunk)])
    assert [line.at_s for line in excerpt(run).lines] == [1.0]


def test_the_same_line_in_two_files_of_a_node_counts_once(tmp_path: Path) -> None:
    run = run_with(tmp_path, b1=[at("06,000", b"INFO Expanding ISR")])
    (run.node("b1") / "console.log").write_bytes(at("06,000", b"INFO Expanding ISR\n"))
    assert excerpt(run).found == 1


def test_many_are_cut_and_counted(tmp_path: Path) -> None:
    lines = [at(f"10,{n:03d}", b"Expanding ISR " + b"x" * 9000) for n in range(500)]
    found = excerpt(run_with(tmp_path, b1=lines))
    assert found.found == 500
    assert len(found.lines) == LINES_AT_MOST
    assert max(len(line.text) for line in found.lines) < 400


def test_bytes_that_are_not_text_are_replaced(tmp_path: Path) -> None:
    found = excerpt(run_with(tmp_path, b1=[at("10,000", b"\xff\xfe Shrinking ISR \x00")]))
    assert found.lines[0].text == "\ufffd\ufffd Shrinking ISR \x00"


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "secret.log"
    outside.write_bytes(at("10,000", b"Fencing broker 2\n"))
    run = run_with(tmp_path, b1=[b"nothing"])
    (run.node("b1") / "other.log").symlink_to(outside)
    assert excerpt(run).found == 0


def test_without_a_start_no_line_can_be_placed(tmp_path: Path) -> None:
    run = run_with(tmp_path, b1=[at("10,000", b"Fencing broker 2")])
    assert logged(run, wall_time=None, end_s=30) == LogExcerpt()


def test_a_system_that_names_no_lines_has_none_and_an_unknown_one_neither(tmp_path: Path) -> None:
    run = run_with(tmp_path, b1=[at("10,000", b"INFO Shrinking ISR")])
    assert excerpt(run).found == 1
    for system in ("memory", "of-another-ackloss"):
        run.write_json(run.plan, {"schema": 1, "target": {"system": system}})
        assert excerpt(run) == LogExcerpt()
    run.plan.unlink()
    assert excerpt(run) == LogExcerpt()


CHANGE = b"[QuorumController id=3] %spartition change for ackloss-%d with topic ID x: "


def test_a_change_is_told_once_whoever_logs_it(tmp_path: Path) -> None:
    """Three nodes log the same election, of two partitions."""
    led = b"isr: [1] -> [2], leader: 1 -> 2, leaderEpoch: 0 -> 1, partitionEpoch: 1 -> 2"
    leads = b"INFO [Broker id=2] Leader ackloss-0 starts at leader epoch 1 from offset 41, ISR [2]"
    found = excerpt(
        run_with(
            tmp_path,
            b2=[at("10,100", leads), at("10,900", b"Truncating ackloss-0 to offset 41")],
            c1=[at("10,000", CHANGE % (b"UNCLEAN ", part) + led) for part in (0, 3)],
            c2=[at("10,050", CHANGE % (b"UNCLEAN ", part) + led) for part in (0, 3)],
        )
    )
    assert [(event.at_s, event.what) for event in found.events] == [
        (5.0, "ackloss-0, ackloss-3: b2 becomes leader, epoch 1, unclean"),
        (5.9, "ackloss-0: b2 cuts its log at offset 41"),
    ]
    assert (found.notable, found.found) == (2, 6)


def test_ten_events_are_shown_the_elections_among_them(tmp_path: Path) -> None:
    lines = [
        at(f"{5 + 3 * n:02d},000", CHANGE % (b"", n) + b"isr: [1] -> [1, 2]") for n in range(8)
    ]
    lines += [at(f"{5 + 3 * n:02d},500", b"INFO Fencing broker %d" % n) for n in range(8)]
    led = b"leader: 1 -> 2, leaderEpoch: 0 -> 1, partitionEpoch: 1 -> 2"
    found = excerpt(run_with(tmp_path, c1=[*lines, at("34,000", CHANGE % (b"", 0) + led)]))
    assert found.notable == 17
    assert len(found.events) == EVENTS_AT_MOST
    assert found.events[-1].what == "ackloss-0: b2 becomes leader, epoch 1"
    assert sum("fenced" in event.what for event in found.events) == 8
