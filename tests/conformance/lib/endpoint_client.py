"""A client of the wheel for any endpoint, in a process of its own (its runtime keeps state per process).

Run as a program it asks once and prints lines of JSON; ask() is the other end, in the tests.
"""

import asyncio
import json
import os
import pathlib
import subprocess
import sys

ANSWER_SECONDS = 60
FOLDER = pathlib.Path(__file__).resolve().parents[1]


def ask(site, component, endpoint, request, items=1000, instances=1):
    """Sends `request` to every one of the instances, waiting for so many of them (0: looks once). Gives
    {hex id: [item or {"error": text}, ...]}, at most `items` each.
    """
    command = {
        "endpoint": f"{site.namespace}.{component}.{endpoint}",
        "request": request,
        "items": items,
        "instances": instances,
    }
    done = subprocess.run(
        [sys.executable, "-m", "lib.endpoint_client", json.dumps(command)],
        cwd=FOLDER,
        env={key: str(value) for key, value in site.env().items()},
        capture_output=True,
        text=True,
        timeout=ANSWER_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


async def _items(client, request, instance, most):
    found = []
    try:
        async for item in await client.direct(request, instance):
            found.append({"error": item.comments()} if item.is_error() else item.data())
            if len(found) == most:
                break
    except Exception as error:  # how the wheel tells of an error item
        found.append({"error": f"{type(error).__name__}: {error}"})
    return found


async def _main(command):
    from dynamo.runtime import DistributedRuntime

    runtime = DistributedRuntime(
        asyncio.get_running_loop(),
        os.environ["DYN_DISCOVERY_BACKEND"],
        os.environ["DYN_REQUEST_PLANE"],
        event_plane=os.environ["DYN_EVENT_PLANE"],
    )
    client = await runtime.endpoint(command["endpoint"]).client()
    while len(client.instance_ids()) < command["instances"]:
        await asyncio.wait_for(client.wait_for_instances(), ANSWER_SECONDS / 2)
        await asyncio.sleep(0.02)
    answers = {
        f"{instance:x}": await _items(client, command["request"], instance, command["items"])
        for instance in client.instance_ids()
    }
    print(json.dumps(answers), flush=True)
    os._exit(0)  # the runtime's own shutdown waits for nothing that matters here


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.argv[1])))
