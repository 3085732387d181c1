"""`ackloss client try`: checks a client program without a run (docs/how-to/any-client.md)."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import rich_click as click

from ackloss.cli.output import Output, with_output
from harness.errors import EnvironmentFailure, PlanError
from harness.machine.files import scratch

if TYPE_CHECKING:
    from harness.protocols import Completion, Invoke
    from harness.run.client_process import ClientProcess

_OPERATIONS = 100
_LOG, _REGISTER, _SET = "log", "register", "set"


@click.group()
def client() -> None:
    """Check a client program that `--client` is to run (docs/how-to/any-client.md)."""


@client.command("try")
@click.argument("command", metavar="CMD")
@click.option(
    "--model",
    type=click.Choice([_LOG, _REGISTER, _SET]),
    default=_LOG,
    show_default=True,
    help="What its operations mean.",
)
@click.option("--system", default="memory", show_default=True, help="`system` of its setup line.")
@click.option("--connection", default="{}", help="`connection` of its setup line, as JSON.")
@click.option("--within", "within_s", default=5.0, show_default=True, help="`answer_within_s`.")
@with_output
def try_(
    out: Output, command: str, model: str, system: str, connection: str, within_s: float
) -> None:
    """Run the program CMD as a run would, hand it operations, and state for each requirement of the
    protocol whether it is met. Nothing is started for it to write to: pass the address of a system
    of yours with --connection, or let it answer by itself.

    The exit code is 0 if every requirement is met, else 1.
    """
    try:
        passed = orjson.loads(connection)
    except orjson.JSONDecodeError as error:
        raise PlanError(f"is not JSON: {error}", key="--connection") from error
    met = _requirements(command, model, system, passed, within_s)
    for requirement, violation in met.items():
        words = f"no: {violation}" if violation else "yes"
        out.say(f"  {requirement}: {words}", style="red" if violation else "green")
    valid = not any(met.values())
    out.document({"schema": 1, "valid": valid, "requirements": met})
    sys.exit(0 if valid else 1)


def _requirements(
    command: str, model: str, system: str, connection: object, within_s: float
) -> dict[str, str | None]:
    """What the protocol requires, in order, each with how the program violates it, `None` if it
    does not. What follows the first process that is not ready is not tried."""
    from harness.protocols.clock import RealClock
    from harness.run.client_process import ClientLog, ClientProcess, client_command, setup_line
    from harness.run.exec_client import CLOSE_S, ExecClient, Notes

    setup = setup_line(
        run_id="try",
        system=system,
        version=None,
        model=model,
        client=1,
        clients=1,
        start=1,
        answer_within_s=within_s,
        connection=connection,  # type: ignore[arg-type]  # the program judges what it is passed
    )
    setup = orjson.dumps({**orjson.loads(setup), "a_field_of_a_later_version": 1}) + b"\n"
    argv = client_command(command)
    ended: dict[int, Completion] = {}
    with scratch() as folder:
        log = ClientLog(Path(folder) / "client.log")

        def start(*_: int) -> ClientProcess:
            return ClientProcess(argv, run_id="try", log=log, name="client", setup=setup)

        def violation() -> str | None:
            return next((each.what for each in notes.conduct().incidents), None)

        notes = Notes(RealClock())
        ready = "answers the setup line when it is connected"
        try:
            running = ExecClient(
                start,
                places=1,
                model=model,
                answer_within_s=within_s,
                clock=RealClock(),
                notes=notes,
            )
        except EnvironmentFailure as error:
            return {ready: error.sentence}
        met = {ready: violation()}
        try:
            for number in range(_OPERATIONS):
                running.submit(number, _operation(model, number))
            while len(ended) < _OPERATIONS and violation() is None:
                running.poll(0.05, ended.__setitem__)
            gone_s = time.monotonic() + CLOSE_S
            while notes.conduct().ended and not violation() and time.monotonic() < gone_s:
                time.sleep(0.01)  # how it ended is noted by a thread
            answers = Counter(kind for kind, *_ in ended.values())
            met["answers each of many operations in flight once, in the documented form"] = (
                violation()
            )
            met["some operation is ok"] = (
                None if answers["ok"] else f"{dict(answers)} of {_OPERATIONS} operations"
            )
            before = violation()
            running.close(within_s, ended.__setitem__)
            closed = f"exits with code 0 within {CLOSE_S:g} s of the close line"
            met[closed] = None if before else violation()
        finally:
            running.end()
        met["exits when stdin ends without a close line"] = _orphaned(start(), CLOSE_S)
        met["logs at most 16 MiB to stderr"] = "the rest is not kept" if log.cut_off else None
        log.close()
    return met


def _orphaned(process: ClientProcess, at_most_s: float) -> str | None:
    """Whether a process that has lost ackloss stays."""
    from harness.run.client_process import Ended

    deadline = time.monotonic() + at_most_s
    process.flush()
    while not process.gone() and time.monotonic() < deadline:
        try:
            if process.lines():
                process.end_input()
        except Ended:
            break
        time.sleep(0.01)
    code = process.end(max(0.0, deadline - time.monotonic()))
    return f"it still runs {at_most_s:g} s later" if code is None else None


def _operation(model: str, number: int) -> Invoke:
    """The nth operation of a model: of two, one reads."""
    from harness.protocols import invoke

    if model == _LOG:
        return invoke("append", number, 0)
    if number % 2:
        return invoke("read", key="k" if model == _REGISTER else None)
    if model == _SET:
        return invoke("add", number)
    return invoke("write", number, key="k")
