"""Server-sent events of an OpenAI answer, and the questions tests ask about them."""

import json

DONE = "[DONE]"


class Parser:
    """Cuts a byte stream into event data; any split of the bytes gives the same events."""

    def __init__(self):
        self._buffer = b""

    def feed(self, data):
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        events = []
        for line in lines:
            line = line.strip()
            if line.startswith(b"data:"):
                text = line[5:].strip().decode()
                events.append(DONE if text == DONE else json.loads(text))
            elif line.startswith(b"event:") and line[6:].strip() == b"error":
                events.append({"sse_event": "error"})
            elif line.startswith(b":"):
                events.append({"sse_comment": line[1:].strip().decode()})
        return events


def _choices(events):
    for event in events:
        if isinstance(event, dict):
            yield from event.get("choices") or []


def contents(events, index=0):
    """Texts of the non-empty content chunks of one choice (chat or completion), in order."""
    texts = []
    for choice in _choices(events):
        if choice.get("index", 0) != index:
            continue
        text = choice["delta"].get("content") if "delta" in choice else choice.get("text")
        if text:
            texts.append(text)
    return texts


def finish_reasons(events):
    """All finish reasons in order of arrival."""
    return [choice["finish_reason"] for choice in _choices(events) if choice.get("finish_reason")]


def errors(events):
    """Events that are an error object, however it is spelled (the word "error" in generated text
    doesn't count).
    """
    return [
        event
        for event in events
        if isinstance(event, dict)
        and ("error" in event or ("code" in event and "message" in event))
    ]


def usage(events):
    """The usage object that came last, or None."""
    found = [event["usage"] for event in events if isinstance(event, dict) and event.get("usage")]
    return found[-1] if found else None


def nvext(events, key):
    """Values of one nvext field in order of arrival."""
    values = [(event.get("nvext") or {}).get(key) for event in events if isinstance(event, dict)]
    return [value for value in values if value is not None]


def is_done(events):
    return bool(events) and events[-1] == DONE
