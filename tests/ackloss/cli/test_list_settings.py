"""`ackloss list settings`: what a plan may set, filtered by level and words, and as JSON."""

from __future__ import annotations

from typing import Any

from tests.fixtures.command_line import ackloss, ackloss_json


def listed(*words: str) -> list[dict[str, Any]]:
    return list(ackloss_json("list", "settings", *words)["settings"])


def test_a_level_and_words_choose() -> None:
    found = listed("topic", "retention.ms")
    assert {each["name"] for each in found} >= {"retention.ms", "delete.retention.ms"}
    assert {(each["level"], each["place"]) for each in found} == {("topic", "topic.settings")}
    assert listed("topic", "no.such.word") == []
    done = ackloss("list", "settings", "topic", "retention.ms")
    assert done.exit_code == 0
    assert "kafka: topic.settings" in done.output
    assert "0.8.1+" in done.output
    assert "log.retention.ms" not in done.output


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
    done = ackloss("list", "settings", "advertised.listeners")
    assert done.output == (
        "kafka: broker advertised.listeners: no plan may set it: ackloss sets it itself\n"
    )
    assert "others that no plan may set" in ackloss("list", "settings", "ssl").output
