"""Prometheus text, read just far enough for tests."""

import re

from lib import http

_LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Metrics:
    """One scrape: samples as (name, labels, value), families as name -> type."""

    def __init__(self, text):
        self.samples = []
        self.families = {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()[:4]
                self.families[name] = kind
            elif line and not line.startswith("#"):
                name, labels, value = _LINE.match(line).groups()
                self.samples.append((name, dict(_LABEL.findall(labels or "")), float(value)))

    def values(self, name, **labels):
        return [v for n, have, v in self.samples if n == name and labels.items() <= have.items()]

    def total(self, name, **labels):
        """Sum over all series of a name that carry the labels; 0 when there are none."""
        return sum(self.values(name, **labels))

    def label_values(self, name, label):
        return {have[label] for n, have, _ in self.samples if n == name and label in have}


def scrape(port, path="/metrics"):
    reply = http.get(port, path)
    assert reply.status == 200, reply
    return Metrics(reply.body.decode())
