"""The ClientApp: a short process for every message, which hands it to the client's process that stays, and its answer back.

The node's owner says in the node's configuration what the client is, in no message: `cloister-folder`, its own, of mode 0700;
`partition-id`, which client it is; `cloister-scenario`, the scenario that it agrees to, in the place of the app's;
`cloister-own`, its data, a CSV file or a folder of images, in the place of its share of the scenario's; `cloister-data`, the
folder of data sets; `cloister-idle`, seconds without a message after which its process ends.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..protocol.core.errors import Refused
from .content import ACTION, bytes_in, content_of
from .home import asked, private_folder, start
from .who import WHO, id_reply

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

FOLDER, CLIENT, SCENARIO, OWN, DATA, IDLE = (
    "cloister-folder",
    "partition-id",
    "cloister-scenario",
    "cloister-own",
    "cloister-data",
    "cloister-idle",
)


def client_app(scenario: str | Path) -> "ClientApp":
    """The ClientApp of a scenario, FILE[:NAME]."""
    from flwr.app import Message
    from flwr.clientapp import ClientApp

    app = ClientApp()

    def take(message: "Message", context: "Context") -> "Message":
        data = bytes_in(message.content)
        folder, client, arguments = resident_of(str(scenario), context.node_config, context.run_id)
        start(folder, [str(client), *arguments])
        answer = id_reply(client) if data == WHO else asked(folder, data)
        return Message(content_of(answer), reply_to=message)

    app.query(ACTION)(take)
    return app


def resident_of(scenario: str, node: Any, run: int) -> tuple[Path, int, list[str]]:
    """Where the client's process of this run is, which client it is, and with what it is started. node: its configuration.

    Raises Refused for a configuration that does not say it.
    """
    if not isinstance(named := node.get(FOLDER), str):
        raise Refused(f"this node's configuration names no {FOLDER}, the client's own folder on it")
    if type(client := node.get(CLIENT)) is not int or client < 0:
        raise Refused(f"this node's configuration does not say which client it is: {CLIENT}")
    private_folder(Path(named))
    folder = private_folder(Path(named) / f"run-{run}")
    arguments = [str(node.get(SCENARIO, scenario))]
    for name, option in ((OWN, "--own"), (DATA, "--data"), (IDLE, "--idle")):
        if name in node:
            arguments += [option, str(node[name])]
    return folder, client, arguments
