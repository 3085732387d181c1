"""Writes targets/kafka/settings.tsv from Kafka itself: the last patch of each minor version is
fetched by Maven, and asked for the definitions of its settings.

From 0.9 on they are objects (`ConfigDef`), which `KafkaSettings.java` prints. Before, the broker's
and the topics' names are constants of the classes that read them. A version's settings are kept
below --out, so that a further version costs one fetch."""

from __future__ import annotations

import argparse
import html
import re
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.images import java
from harness.plan import number_of
from targets.kafka.definitions import OPEN, OPTIONS, Level, why_refused
from targets.kafka.versions import release_line

HERE = Path(__file__).parent
TABLE: Final = HERE.parent / "targets" / "kafka" / "settings.tsv"
PROGRAM: Final = HERE / "KafkaSettings.java"
VERSIONS: Final = (
    "0.8.0", "0.8.1.1", "0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.1.1", "0.10.2.2", "0.11.0.3",
    "1.0.2", "1.1.1", "2.0.1", "2.1.1", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2",
    "2.8.2", "3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1",
    "3.9.2", "4.0.2", "4.1.2", "4.2.2", "4.3.1", "4.4.0",
)  # fmt: skip
_BEFORE_DEFINITIONS: Final = {
    "broker": ("kafka/server/KafkaConfig.class", "kafka/utils/ZKConfig.class"),
    "topic": ("kafka/log/LogConfig.class", "kafka/log/LogConfig$.class"),
}
_NAME: Final = re.compile(rb"[a-z][a-z0-9]*(?:\.[a-z0-9]+)+")
_ALONE: Final = {b"port"}
LEVELS: Final[tuple[Level, ...]] = ("broker", "topic", "producer", "consumer")
_LONGEST: Final = 120
_ENDED: Final = frozenset(
    {
        "controller.message.queue.size",
        "log.cleanup.interval.mins",
        "log.flush.interval.ms.per.topic",
        "log.retention.bytes.per.topic",
        "log.retention.hours.per.topic",
        "log.roll.hours.per.topic",
        "log.segment.bytes.per.topic",
        "replica.lag.max.messages",
    }
)
"""Settings of 0.8 that no later version has: looked at, every other constant would be a mistake."""


@dataclass
class Row:
    """A setting: its versions and its default by level, and what else the newest version that has
    it says of it, of brokers first."""

    versions: dict[str, list[str]] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)
    facts: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    topic: str = ""

    @property
    def type(self) -> str:
        """Its type."""
        return self.facts[self.levels[0]][0]

    @property
    def levels(self) -> list[Level]:
        """Its levels, in order."""
        return [level for level in LEVELS if level in self.versions]

    def rest(self, name: str) -> str:
        """Its line in the table behind the name; of what no plan sets in any form, only what tells
        whether a version knows it, whether it is a secret, and what it is where nobody sets it."""
        levels = " ".join(f"{level}:{_span(self.versions[level])}" for level in self.levels)
        defaults = [self.defaults[level] for level in self.levels]
        default = "|".join(defaults) if len(set(defaults)) > 1 else defaults[0]
        kind, words, _ = self.facts[self.levels[0]]
        sentence = next(filter(None, (self.facts[level][2] for level in self.levels)), "")
        set_by_none = all(why_refused(name, level, "java") for level in self.levels)
        if set_by_none and name not in OPTIONS:
            kind = "int" if kind in OPEN else kind if kind == "password" else "string"
            default = default if "broker" in self.levels else ""
            return "\t".join((levels, kind, default, "", "", ""))
        return "\t".join((levels, kind, default, words, self.topic, sentence))


def printed(version: str, kept: Path) -> str:
    """The definitions of a version: lines of level, name, type, default, words, help."""
    path = kept / f"{version}.tsv"
    if not path.exists():
        with tempfile.TemporaryDirectory() as folder:
            java.fetch(release_line(version).recipe(version), Path(folder))
            libs = Path(folder) / "libs"
            old = number_of(version) < (0, 9)
            text = _constants(libs) if old else definitions_in(libs)
        path.write_text(text, encoding="utf-8")
        print(version, text.count("\n"), flush=True)
    return path.read_text(encoding="utf-8")


def definitions_in(libs: Path) -> str:
    """What the jars in a folder say, as `KafkaSettings.java` prints it."""
    done = subprocess.run(
        ["java", "-cp", f"{libs}/*", str(PROGRAM)], capture_output=True, text=True, check=True
    )
    return done.stdout


def _constants(libs: Path) -> str:
    (jar,) = libs.glob("kafka_2.*.jar")
    lines = []
    with zipfile.ZipFile(jar) as classes:
        for level, names in _BEFORE_DEFINITIONS.items():
            for name in set(names) & set(classes.namelist()):
                for text in _utf8(classes.read(name)):
                    if _NAME.fullmatch(text) or text in _ALONE:
                        lines.append(f"{level}\t{text.decode()}\t\t\t\t\n")
    return "".join(sorted(set(lines)))


def _utf8(content: bytes) -> list[bytes]:
    """The texts in a class file's pool of constants."""
    sizes = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 18: 4}
    texts, at, number = [], 10, 1
    while number < int.from_bytes(content[8:10]):
        tag = content[at]
        if tag == 1:
            size = int.from_bytes(content[at + 1 : at + 3])
            texts.append(content[at + 3 : at + 3 + size])
            at += 3 + size
        else:
            at += 1 + sizes[tag]
        number += 2 if tag in (5, 6) else 1
    return texts


def table(kept: Path) -> str:
    """The table, a line a setting."""
    rows: dict[str, Row] = {}
    old: set[tuple[str, str]] = set()
    for version in VERSIONS:
        for line in printed(version, kept).splitlines():
            level, name, kind, default, words, help_ = line.split("\t")
            if level == "synonym":
                rows[name].topic = f"{kind}*{default}" if default else kind
                continue
            row = rows.setdefault(name, Row())
            row.versions.setdefault(level, []).append(minor(version))
            if not kind:
                old.add((level, name))
            row.defaults[level] = _default(kind, default)
            row.facts[level] = kind.lower(), _words(words), _sentence(help_)
    noise = [name for level, name in old if not rows[name].type and name not in _ENDED]
    assert not noise, f"constants of 0.8 that may be no settings: {sorted(noise)}"
    head = "# " + " ".join(map(minor, VERSIONS))
    alike: dict[str, list[str]] = {}
    for name, row in sorted(rows.items()):
        alike.setdefault(row.rest(name), []).append(name)
    return "\n".join([head, *(f"{' '.join(each)}\t{rest}" for rest, each in alike.items()), ""])


def minor(version: str) -> str:
    """The minor version: 0.10.2 of 0.10.2.2, 3.9 of 3.9.2."""
    return ".".join(version.split(".")[: 3 if version.startswith("0.") else 2])


def _span(versions: list[str]) -> str:
    """The first and the last of them; without the last if that is the newest of all. A patch may
    bring what the next minor version does not have yet: there, the cluster itself says so."""
    newest = minor(VERSIONS[-1])
    return f"{versions[0]}-" if versions[-1] == newest else f"{versions[0]}-{versions[-1]}"


def _default(kind: str, default: str) -> str:
    """A default as brokers report it."""
    if kind == "LIST":
        return re.sub(r",\s*", ",", default.strip("[]"))
    return default.removeprefix("class ")


def _words(validator: str) -> str:
    """The words that a validator allows: `[delete, compact]`, but no ranges and no patterns."""
    found = re.fullmatch(r"(?:\(case insensitive\) )?\[([\w-]+(?:, [\w-]+)+)\]", validator)
    words = found.group(1).split(", ") if found else []
    return ",".join(sorted(words)) if words and not words[0].lstrip("-").isdigit() else ""


def _sentence(text: str) -> str:
    """The first sentence of a documentation, as plain text."""
    text = html.unescape(re.sub(r"<[^>]+>", "", text)).strip()
    first = re.split(r"(?<=[^.][.:])\s", text, maxsplit=1)[0].strip().rstrip(".:")
    if len(first) <= _LONGEST:
        return first
    return first[:_LONGEST].rsplit(" ", 1)[0].rstrip(",;") + " ..."


def main() -> None:
    """Ask every version that was not asked yet, and write the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, required=True, help="where versions are kept")
    kept: Path = arguments.parse_args().out
    kept.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(table(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
