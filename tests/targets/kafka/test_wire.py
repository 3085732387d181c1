"""Names of kafka-python are looked up when they are used, where no type checker sees them."""

from __future__ import annotations

import re
from pathlib import Path

from targets.kafka import wire

KAFKA = Path(wire.__file__).parent


def test_kafka_python_has_every_name_that_is_used() -> None:
    used = {
        name
        for file in KAFKA.rglob("*.py")
        for name in re.findall(r"\bwire\.([A-Za-z]\w*)", file.read_text(encoding="utf-8"))
    }
    assert used >= {"KafkaAdminClient", "KafkaError"}
    assert {name for name in used if not hasattr(wire, name)} == set()
