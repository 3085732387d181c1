"""`ackloss list settings`: what a plan may set, filtered by level and words, and as JSON."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from ackloss.cli import main


def ackloss(*args: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["list", *args], prog_name="ackloss")
    return done.exit_code, done.output


def listed(*words: str) -> list[dict[str, Any]]:
    code, output = ackloss("settings", *words, "--json")
    assert code == 0
    found: list[dict[str, Any]] = json.loads(output)["settings"]
    return found


def test_a_level_and_words_choose() -> None:
    found = listed("topic", "retention.ms")
    assert {each["name"] for each in found} >= {"retention.ms", "delete.retention.ms"}
    assert {(each["level"], each["place"]) for each in found} == {("topic", "topic.settings")}
    assert listed("topic", "no.such.word") == []
    code, output = ackloss("settings", "topic", "retention.ms")
    assert code == 0
    assert "kafka: topic.settings" in output
    assert "0.8.1+" in output
    assert "log.retention.ms" not in output


def test_it_lists_every_setting_and_who_may_set_it() -> None:
    every = listed()
    by_name = {(each["level"], each["name"]): each for each in every}
    assert by_name["producer", "acks"]["refused"] is None
    assert by_name["broker", "listeners"]["refused"] == "ackloss sets it itself"
    assert by_name["broker", "ssl.keystore.password"]["secret"]
    assert by_name["broker", "zookeeper.connect"]["last"] == "3.9"
    timeout = by_name["producer", "message.timeout.ms"]
    assert timeout["names"] == {
        "librdkafka": "message.timeout.ms",
        "java": "delivery.timeout.ms",
        "kafka-python": "delivery_timeout_ms",
    }
    assert len(by_name) == len(every)


def test_people_see_why_no_plan_may_set_what_they_look_for() -> None:
    _, output = ackloss("settings", "advertised.listeners")
    assert output == (
        "kafka: broker advertised.listeners: no plan may set it: ackloss sets it itself\n"
    )
    _, output = ackloss("settings", "ssl")
    assert "others that no plan may set" in output
