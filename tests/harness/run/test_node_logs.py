"""The sentence that a start that failed leaves behind."""

from __future__ import annotations

from pathlib import Path

from harness.run.node_logs import last_words

EXPIRED = "org.apache.zookeeper.KeeperException$SessionExpiredException: Session expired"
LOG = f"""[2026-11-22 08:15:10,790] INFO [ZooKeeperClient Kafka server] Session expired.
[2026-11-22 08:15:10,892] ERROR Fatal error during KafkaServer startup (kafka.server.KafkaServer)
{EXPIRED}
\tat org.apache.zookeeper.KeeperException.create(KeeperException.java:130)
\tat kafka.zookeeper.AsyncResponse.resultException(ZooKeeperClient.scala:576)
[2026-11-22 08:15:10,900] INFO shutting down (kafka.server.KafkaServer)
"""


def test_the_last_trouble_is_told_without_frames_of_a_stack_trace(tmp_path: Path) -> None:
    (tmp_path / "b1").mkdir()
    (tmp_path / "b1" / "server.log").write_text(LOG)
    assert last_words(tmp_path) == (
        "b1: [2026-11-22 08:15:10,892] ERROR Fatal error during KafkaServer startup "
        f"(kafka.server.KafkaServer) | b1: {EXPIRED}"
    )


def test_logs_without_trouble_say_so(tmp_path: Path) -> None:
    (tmp_path / "b1").mkdir()
    (tmp_path / "b1" / "server.log").write_text("INFO started\n")
    assert last_words(tmp_path) == "no error in it"
