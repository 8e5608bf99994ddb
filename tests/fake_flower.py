"""As much of Flower as an app touches: its records and messages, and a grid whose nodes answer at once, or when a test says."""

import itertools
import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any


@dataclass
class Array:
    dtype: str
    shape: tuple[int, ...]
    stype: str
    data: bytes


class ArrayRecord(dict[str, Array]):
    pass


class RecordDict(dict[str, Any]):
    pass


class Message:
    def __init__(self, content, dst_node_id=0, message_type="", *, reply_to=None, error=None):
        self.content, self.error = content, error
        answered = "" if reply_to is None else reply_to.metadata.message_id
        self.metadata = SimpleNamespace(
            dst_node_id=dst_node_id, message_type=message_type, message_id="", reply_to_message_id=answered, src_node_id=0
        )

    def has_error(self):
        return self.error is not None


class App:
    """A ClientApp or ServerApp: what was registered with it."""

    def __init__(self):
        self.queries, self.played = {}, None

    def query(self, action):
        return lambda of: self.queries.setdefault(action, of)

    def main(self):
        def registered(of):
            self.played = of
            return of

        return registered


@dataclass
class Grid:
    """nodes: what each makes of a message: an answer, or None of one that fails. silent: nodes that answer later or never."""

    nodes: dict[int, Any]
    silent: set[int] = field(default_factory=set)
    sent: list[Message] = field(default_factory=list)
    pushed: list[int] = field(default_factory=list)
    _names: Any = field(default_factory=itertools.count)
    _waiting: dict[str, Message] = field(default_factory=dict)

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        for message in messages:
            message.metadata.message_id = f"m{next(self._names)}"
            self.sent.append(message)
            self._waiting[message.metadata.message_id] = message
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, names):
        replies = []
        for name in names:
            message = self._waiting.get(name)
            if message is None or message.metadata.dst_node_id in self.silent:
                continue
            del self._waiting[name]
            content = self.nodes[message.metadata.dst_node_id](message)
            failed = None if content is not None else SimpleNamespace(reason="it failed")
            replies.append(Message(content, reply_to=message, error=failed))
        return replies


def installed(monkeypatch):
    """As `flwr`, whether there is one or not."""
    for name, given in {
        "flwr": {},
        "flwr.app": {"Array": Array, "ArrayRecord": ArrayRecord, "RecordDict": RecordDict, "Message": Message},
        "flwr.clientapp": {"ClientApp": App},
        "flwr.serverapp": {"ServerApp": App},
    }.items():
        module = ModuleType(name)
        vars(module).update(given)
        monkeypatch.setitem(sys.modules, name, module)
