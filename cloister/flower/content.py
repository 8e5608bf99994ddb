"""What a Flower message has of ours: bytes, as an array of bytes, which Flower takes apart and checks piece by piece."""

from typing import TYPE_CHECKING, Any

from ..protocol.core.errors import Refused

if TYPE_CHECKING:
    from flwr.app import RecordDict

ACTION = "cloister"
"""Of the messages: they are queries of this name."""
_RECORD, _ENTRY, _KIND = "cloister", "bytes", "cloister.bytes"


def content_of(data: bytes) -> "RecordDict":
    """As what a Flower message holds."""
    from flwr.app import Array, ArrayRecord, RecordDict

    return RecordDict({_RECORD: ArrayRecord({_ENTRY: Array(dtype="uint8", shape=(len(data),), stype=_KIND, data=data)})})


def bytes_in(content: Any) -> bytes:
    """The same back. Raises Refused."""
    try:
        array = content[_RECORD][_ENTRY]
        data = array.data
    except (KeyError, TypeError, AttributeError):
        raise Refused("a Flower message of another app") from None
    if array.stype != _KIND or type(data) is not bytes:
        raise Refused("a Flower message of another app")
    return data
