"""The client that speaks to drivers: what it makes of their answers and of their deaths.

The drivers are sockets here, which speak the lines of `Driver.java`; the real one writes to real
brokers in tests/e2e/test_java_client.py.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from threading import Thread

import pytest

from harness.errors import HarnessFailure
from harness.protocols import FAIL, INFO, OK, completion, invoke
from targets.kafka.clients.java import LOST, UNREPORTED, JavaClient, Line, Lost, Refused
from tests.fixtures.producing import Answers, poll_until

ONCE = {"retries": "0", "enable.idempotence": "false"}
AGAIN = {"retries": "2147483647", "enable.idempotence": "true"}


class Driver:
    """Accepts one connection after the other; `lines` are those of the latest."""

    def __init__(self, has: dict[str, str], answer: str = "ready") -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = ("127.0.0.1", int(self._server.getsockname()[1]))
        self._has, self._answer = has, answer
        self.given: list[list[str]] = []
        Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                self._peer, _ = self._server.accept()
            except OSError:
                return
            self._lines = self._peer.makefile("r")
            given: list[str] = []
            while (line := self._lines.readline().strip()) not in ("begin", ""):
                given.append(line)
            self.given.append(given)
            has = [f"set {key}={value}" for key, value in self._has.items()]
            self.tell(*has, self._answer)

    def tell(self, *lines: str, end: str = "\n") -> None:
        self._peer.sendall(("\n".join(lines) + end).encode())

    def hear(self) -> str:
        return self._lines.readline().strip()

    def die(self) -> None:
        """The connection ends; another can be made."""
        with suppress(OSError):  # it has ended
            self._peer.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):  # it is closed
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        if self.given:
            self.die()


@pytest.fixture
def drivers(request: pytest.FixtureRequest) -> Iterator[list[Driver]]:
    made = [Driver(getattr(request, "param", AGAIN)) for _ in range(2)]
    yield made
    for driver in made:
        driver.close()


def place(driver: Driver, number: int, within_s: float) -> Line:
    return Line(driver.address, "t", {"client.id": f"n{number}"}, within_s=within_s)


def client_of(drivers: list[Driver]) -> JavaClient:
    return JavaClient([partial(place, driver) for driver in drivers])


def test_a_connection_begins_with_topic_and_settings_and_learns_what_is(
    drivers: list[Driver],
) -> None:
    line = place(drivers[0], 7, 5)
    assert drivers[0].given == [["topic t", "set client.id=n7"]]
    assert line.reported == AGAIN
    line.socket.close()


def test_writes_go_to_the_driver_of_their_process_and_offsets_come_back(
    drivers: list[Driver],
) -> None:
    client, answers = client_of(drivers), Answers()
    for process in range(4):
        assert client.submit(process, invoke("append", 100 + process, process % 3, "k"))
    client.poll(0, answers.done)
    assert [drivers[0].hear() for _ in range(2)] == ["0 0 0000000100 =k", "2 2 0000000102 =k"]
    assert [drivers[1].hear() for _ in range(2)] == ["1 1 0000000101 =k", "3 0 0000000103 =k"]
    drivers[0].tell("2 ok 11", "0 ok -1")
    drivers[1].tell("1 ok 12", "3 error SOMETHING -1")
    poll_until(client, answers, 4)
    assert answers == {
        0: completion(OK),
        1: completion(OK, offset=12),
        2: completion(OK, offset=11),
        3: completion(INFO, error="SOMETHING"),
    }


@pytest.mark.parametrize(
    ("drivers", "ended"), [(ONCE, FAIL), (AGAIN, INFO)], indirect=["drivers"], ids=["once", "again"]
)
def test_a_refusal_is_a_failure_only_of_the_only_attempt(drivers: list[Driver], ended: str) -> None:
    client, answers = client_of(drivers), Answers()
    for process in (0, 2):
        client.submit(process, invoke("append", process, 0))
    client.poll(0, answers.done)
    drivers[0].tell("0 error NOT_ENOUGH_REPLICAS 19", "2 error REQUEST_TIMED_OUT 7")
    poll_until(client, answers, 2)
    assert answers == {
        0: completion(ended, error="NOT_ENOUGH_REPLICAS"),
        2: completion(INFO, error="REQUEST_TIMED_OUT"),
    }


def test_what_was_under_way_in_a_driver_that_died_is_unknown(drivers: list[Driver]) -> None:
    client, answers = client_of(drivers), Answers()
    for process in (0, 2, 3):
        client.submit(process, invoke("append", process, 0))
    client.poll(0, answers.done)
    drivers[0].tell("2 ok 5", "0 ok 1", end="")  # of a longer number, perhaps
    drivers[0].die()
    poll_until(client, answers, 2)
    assert answers == {0: completion(INFO, error=LOST), 2: completion(OK, offset=5)}

    assert drivers[1].hear() == "3 0 0000000003"
    client.submit(4, invoke("append", 4, 0))  # of the first driver: the other takes it
    client.poll(0, answers.done)
    assert drivers[1].hear() == "4 0 0000000004"

    deadline = time.monotonic() + 10
    while len(drivers[0].given) < 2:  # another producer in the same place
        assert time.monotonic() < deadline
        client.poll(0.05, answers.done)
    assert drivers[0].given[1] == ["topic t", "set client.id=n2"]
    time.sleep(0.2)
    client.poll(0, answers.done)
    client.submit(6, invoke("append", 6, 0))
    client.poll(0, answers.done)
    assert drivers[0].hear() == "6 0 0000000006"


def test_nothing_is_begun_while_every_driver_is_away(drivers: list[Driver]) -> None:
    client, answers = client_of(drivers), Answers()
    client.submit(0, invoke("append", 0, 0))
    client.submit(1, invoke("append", 1, 0))
    for driver in drivers:
        driver.close()
    poll_until(client, answers, 2)
    assert set(answers.values()) == {completion(INFO, error=LOST)}
    assert not client.submit(2, invoke("append", 2, 0))
    begun = time.monotonic()
    client.poll(0.2, answers.done)  # waits, though there is nobody
    assert time.monotonic() - begun > 0.15


def test_closing_takes_late_answers_and_the_rest_is_unknown(drivers: list[Driver]) -> None:
    client, answers = client_of(drivers), Answers()
    for process in range(4):
        client.submit(process, invoke("append", process, 0))

    def answer(driver: Driver, *answered: str) -> None:
        while driver.hear() != "close":
            pass
        driver.tell(*answered)

    players = [
        Thread(target=answer, args=(drivers[0], "0 ok 1", "2 error KafkaException -1", "closed")),
        Thread(target=answer, args=(drivers[1], "1 ok 2")),  # never says that it is closed
    ]
    for player in players:
        player.start()
    client.close(0.1, answers.done)
    for player in players:
        player.join()
    assert answers == {
        0: completion(OK, offset=1),
        1: completion(OK, offset=2),
        2: completion(INFO, error="KafkaException"),
        3: completion(INFO, error=UNREPORTED),
    }


@pytest.mark.parametrize(("word", "raised"), [("refused", Refused), ("failed", Lost)])
def test_a_producer_that_does_not_start_says_why(word: str, raised: type[Exception]) -> None:
    driver = Driver({}, f"{word} Invalid value 5 for acks")
    with pytest.raises(raised, match="Invalid value 5 for acks"):
        place(driver, 1, 5)
    with pytest.raises(HarnessFailure, match=r"did not start: .*Invalid value 5"):
        client_of([driver])
    driver.close()


def test_a_driver_that_is_not_there_is_waited_for_and_then_lost() -> None:
    driver = Driver({})
    driver.close()
    begun = time.monotonic()
    with pytest.raises(Lost, match="nothing answers at 127"):
        place(driver, 1, 0.5)
    assert 0.3 < time.monotonic() - begun < 5
