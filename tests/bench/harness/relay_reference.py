"""Run by the reference's own Python: its relay, a publisher per engine and rank that reads a ZMQ socket."""
import asyncio
import json
import os
import sys


async def main(path, base, engines, ranks, block_size):
    from dynamo.llm import KvEventPublisher
    from dynamo.runtime import DistributedRuntime

    runtime = DistributedRuntime(asyncio.get_running_loop(), os.environ["DYN_DISCOVERY_BACKEND"],
                                 os.environ["DYN_REQUEST_PLANE"], event_plane=os.environ["DYN_EVENT_PLANE"])
    endpoint = runtime.endpoint(path)
    publishers = [KvEventPublisher(endpoint, worker_id=engine + 1, kv_block_size=block_size, dp_rank=rank,
                                   enable_local_indexer=True, zmq_topic="",
                                   zmq_endpoint=f"tcp://127.0.0.1:{base + engine * ranks + rank}")
                  for engine in range(engines) for rank in range(ranks)]
    print("ready", len(publishers), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *json.loads(sys.argv[2])))
