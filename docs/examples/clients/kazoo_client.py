#!/usr/bin/env python3
"""A ZooKeeper client for `ackloss run --client`, with kazoo (docs/how-to/any-client.md).

ackloss run zookeeper/short-set --set workload.client=exec --set workload.clients=3 \
    --set workload.connect=one --client "python3 docs/examples/clients/kazoo_client.py"
"""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import kazoo.version
from kazoo import exceptions
from kazoo.client import KazooClient

# A server answers these before it makes a transaction, and kazoo sends each request once.
REFUSED = (
    exceptions.BadVersionError,
    exceptions.NodeExistsError,
    exceptions.NoNodeError,
    exceptions.NoAuthError,
)
AT_ONCE = 16

writing = threading.Lock()


def say(**line):
    """Write one line, whole: operations end in several threads."""
    with writing:
        print(json.dumps(line), flush=True)


class Operations:
    """What the setup line asks for, on one session."""

    def __init__(self, setup):
        connection = setup["connection"]
        self.parent, self.sync = connection["parent"], connection["sync"]
        self.timeout_s = connection["request_ms"] / 1000
        self.set = setup["model"] == "set"
        servers = connection["servers"]  # kazoo does not report which of several it asks
        self.node = {"node": connection["nodes"][servers[0]]} if len(servers) == 1 else {}
        self.kazoo = KazooClient(
            ",".join(servers),
            timeout=connection["session_ms"] / 1000,
            randomize_hosts=False,
        )

    def wait(self, requested):
        return requested.get(timeout=self.timeout_s)

    def do(self, op):
        """The result of one operation, or None. Raises what kazoo raises."""
        if op["f"] == "add":
            self.wait(self.kazoo.create_async(f"{self.parent}/{op['value']}"))
            return None
        if op["f"] == "read" and self.sync:
            self.wait(self.kazoo.sync_async(self.parent))
        if self.set:
            return [int(name) for name in self.wait(self.kazoo.get_children_async(self.parent))]
        return getattr(self, op["f"])(f"{self.parent}/{op['key']}", op)

    def read(self, path, op):
        try:
            data, _ = self.wait(self.kazoo.get_async(path))
        except exceptions.NoNodeError:
            return None
        return int(data)

    def write(self, path, op):
        data = str(op["value"]).encode()
        try:
            self.wait(self.kazoo.set_async(path, data))
        except exceptions.NoNodeError:
            try:
                self.wait(self.kazoo.create_async(path, data))
            except exceptions.NodeExistsError:  # another was faster
                self.wait(self.kazoo.set_async(path, data))

    def cas(self, path, op):
        held, stat = self.wait(self.kazoo.get_async(path))
        if int(held) != op["expected"]:
            raise exceptions.BadVersionError
        self.wait(self.kazoo.set_async(path, str(op["value"]).encode(), stat.version))


def answer(operations, op):
    """Do one operation and say how it ended."""
    number = op["id"]
    try:
        result = operations.do(op)
    except REFUSED as error:
        say(type="fail", id=number, error=type(error).__name__)
    except Exception as error:  # it may have been applied, or may be later
        say(type="info", id=number, error=type(error).__name__)
    else:
        read = {"result": result} if op["f"] == "read" else {}
        say(type="ok", id=number, **read, **operations.node)


def main():
    setup = json.loads(sys.stdin.readline())
    operations = Operations(setup)
    operations.kazoo.start(timeout=30)
    say(type="ready", name="kazoo", version=kazoo.version.__version__)
    pool = ThreadPoolExecutor(AT_ONCE)
    for line in sys.stdin:
        op = json.loads(line)
        if op["type"] == "close":
            break
        pool.submit(answer, operations, op)
    pool.shutdown(cancel_futures=True)
    operations.kazoo.stop()


if __name__ == "__main__":
    main()
