"""A link on which nothing is said stays, however many pings go over it."""

import asyncio

import pytest

from cloister.protocol.links import terms

grpc = pytest.importorskip("grpc")
SERVICE, METHOD = "test.Idle", "Stay"
EVERY = 300
"""Milliseconds between pings."""
PINGS = 20


async def stays(server_options, client_options):
    """How a stream ends that nobody says anything on, after many pings; None where it does not."""

    async def stay(_, context):
        await context.write(b"there")
        await asyncio.Event().wait()

    server = grpc.aio.server(options=server_options)
    handler = grpc.stream_stream_rpc_method_handler(stay)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=client_options) as channel:
            call = channel.stream_stream(f"/{SERVICE}/{METHOD}")()
            assert await call.read() == b"there"
            try:
                await asyncio.wait_for(call.read(), PINGS * EVERY / 1000)
            except TimeoutError:
                return None
            except grpc.aio.AioRpcError as error:
                return error.details()
            return "ended"
    finally:
        await server.stop(0)


@pytest.mark.long
def test_a_silent_link_outlives_many_pings():
    assert asyncio.run(stays(terms.options(EVERY), terms.options(EVERY))) is None


@pytest.mark.long
def test_a_server_that_does_not_allow_them_ends_it():
    """So the test above sees pings."""
    left = [(name, value) for name, value in terms.options(EVERY) if "min_ping_interval" not in name]
    assert asyncio.run(stays(left, terms.options(EVERY))) == "Too many pings"
