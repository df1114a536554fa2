"""Run by the reference's own Python: one offline replay, its cost as a line of JSON.

Wall and CPU time are those of the call alone (reading the trace included), without the start of the interpreter.
"""
import json
import resource
import sys
import time

from dynamo.mocker import MockEngineArgs
from dynamo.replay import run_trace_replay


def main():
    trace, engine, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    wall, cpu = time.perf_counter(), time.process_time()
    report = run_trace_replay(trace, extra_engine_args=MockEngineArgs.from_json(engine), **options)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"wall_s": wall, "cpu_s": cpu, "rss_max_kb": rss, "report": report}))


if __name__ == "__main__":
    main()
