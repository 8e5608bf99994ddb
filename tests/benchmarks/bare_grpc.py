"""What gRPC alone costs of rounds over loopback: to each client a model, from each an update, as bytes that nobody reads.

Clients live in a few processes, one of a process at a time, on one connection each to the end. CPU seconds are of all threads of
all processes, from the first connection to the last piece. `linked_round` plays it beside its own.

    python -m tests.benchmarks.bare_grpc [--json] [--clients 200] [--processes 2] [--rounds 1] [--bytes 4000000]
"""

import argparse
import asyncio
import json
import subprocess
import sys
from time import process_time
from typing import Any

import grpc.aio

PIECE_BYTES = 1 << 18


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--bytes", type=int, default=4_000_000)
    parser.add_argument("--json", action="store_true", help="print JSON only, as it does anyway")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.port is None:
        found = moved(options.clients, options.processes, options.rounds, options.bytes)
    else:
        begun = process_time()
        asyncio.run(_clients(options.port, options.clients, options.rounds, options.bytes))
        found = {"cpu_seconds": process_time() - begun}
    sys.stdout.write(json.dumps(found) + "\n")


def moved(clients: int, processes: int, rounds: int, size: int) -> dict[str, Any]:
    """So many bytes to and from each client in every round."""
    return asyncio.run(_served(clients, processes, rounds, size))


async def _served(clients: int, processes: int, rounds: int, size: int) -> dict[str, Any]:
    model, ended, over = _pieces(size), 0, asyncio.Event()

    async def serve(_: object, context: Any) -> None:
        nonlocal ended
        for _round in range(rounds):
            for piece in model:
                await context.write(piece)
            await _taken(context.read, size)
        ended += 1
        if ended == clients:
            over.set()

    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(serve)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Bare", {"Move": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    shares = [len(range(k, clients, processes)) for k in range(processes)]
    asked = [sys.executable, "-m", "tests.benchmarks.bare_grpc", f"--rounds={rounds}", f"--bytes={size}", f"--port={port}"]
    begun = process_time()
    started = [subprocess.Popen([*asked, f"--clients={share}"], stdout=subprocess.PIPE, text=True) for share in shares]
    await over.wait()
    said = [json.loads((await asyncio.to_thread(process.communicate, timeout=120))[0]) for process in started]
    cpu = process_time() - begun
    await server.stop(None)
    return {"cpu_seconds": cpu + sum(one["cpu_seconds"] for one in said), "coordinator_cpu_seconds": cpu}


async def _clients(port: int, clients: int, rounds: int, size: int) -> None:
    update, turn = _pieces(size), asyncio.Semaphore(1)

    async def one() -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.stream_stream("/Bare/Move")()
            for _round in range(rounds):
                async with turn:
                    await _taken(call.read, size)
                    for piece in update:
                        await call.write(piece)
            await call.done_writing()
            await call.read()  # until the other end has all

    await asyncio.gather(*(one() for _ in range(clients)))


def _pieces(size: int) -> list[bytes]:
    return [bytes(min(PIECE_BYTES, size - at)) for at in range(0, size, PIECE_BYTES)]


async def _taken(read: Any, size: int) -> None:
    while size > 0:
        if (piece := await read()) is grpc.aio.EOF:
            raise ConnectionError("the other end has gone")
        size -= len(piece)


if __name__ == "__main__":
    main()
