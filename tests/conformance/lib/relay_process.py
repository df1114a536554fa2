"""The reference's relay in a process of its own: its publisher reads an engine's ZMQ sockets and speaks for a worker elsewhere."""

import asyncio
import json
import os
import sys


async def _serve(endpoint_path, options):
    from dynamo.llm import KvEventPublisher
    from dynamo.runtime import DistributedRuntime

    runtime = DistributedRuntime(
        asyncio.get_running_loop(),
        os.environ["DYN_DISCOVERY_BACKEND"],
        os.environ["DYN_REQUEST_PLANE"],
        event_plane=os.environ["DYN_EVENT_PLANE"],
    )
    endpoint = runtime.endpoint(endpoint_path)
    publishers = [
        KvEventPublisher(
            endpoint,
            worker_id=options["worker_id"],
            kv_block_size=options["block_size"],
            dp_rank=rank,
            enable_local_indexer=True,
            zmq_endpoint=f"tcp://127.0.0.1:{options['port'] + rank}",
            zmq_topic="",
        )
        for rank in range(options["ranks"])
    ]
    print("ready", len(publishers), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], json.loads(sys.argv[2])))
