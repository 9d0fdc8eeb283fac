"""Client process of one server: reads streams when it is told to, and says what each of them took.

    python -m benchmarks.stream_client URI

Every line on stdin is a ticket. The answer is one line of JSON: the seconds and the processor seconds until
the stream ended, the number of batches, and their bytes.
"""

from __future__ import annotations

import json
import sys
import time

from pyarrow import flight

from benchmarks.touch import touch_batch


def main() -> None:
    client = flight.connect(sys.argv[1])
    for line in sys.stdin:
        began, cpu_began = time.perf_counter(), time.process_time()
        num_batches = num_bytes = 0
        for chunk in client.do_get(flight.Ticket(line.strip().encode())):
            touch_batch(chunk.data)
            num_batches += 1
            num_bytes += chunk.data.nbytes
        taken = {
            "seconds": time.perf_counter() - began,
            "cpu_seconds": time.process_time() - cpu_began,
            "batches": num_batches,
            "bytes": num_bytes,
        }
        print(json.dumps(taken), flush=True)


if __name__ == "__main__":
    main()
