#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures `ashlar view` on FILE: the time from the command to the first tile of the timeline, then
response times for random tiles of every level, maps, stacks and the table; and memory.

  benchmarks/viewer.py FILE                  such as llm_generate_long.1, 3,000,000 entries
  --cli PATH                                 the tool; default: build/release/bin/ashlar

Exit: 0 done, 1 the server failed. Needs Python 3.11 and its standard library."""

import argparse
import http.client
import json
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
REQUESTS = 15  # requests per kind of resource; for tiles, four times as many


class Browser:
    """One persistent connection, like the connection of a browser."""

    def __init__(self, address):
        self.url = urllib.parse.urlsplit(address)
        self.connection = http.client.HTTPConnection(self.url.hostname, self.url.port)

    def get(self, path):
        """Returns (status code, body, milliseconds)."""
        started = time.monotonic()
        self.connection.request("GET", self.url.path + path)
        response = self.connection.getresponse()
        body = response.read()
        return response.status, body, 1000 * (time.monotonic() - started)


def wait_for_scene(browser):
    while True:
        code, body, _ = browser.get("scene.json")
        if code == 200:
            return json.loads(body)["documents"][0]
        if code != 202:
            sys.exit(f"viewer: {body.decode()}")
        time.sleep(0.02)


def measure(browser, name, paths):
    times, sizes = [], []
    for path in paths:
        _, body, milliseconds = browser.get(path)
        times.append(milliseconds)
        sizes.append(len(body))
    print(f"{name:34}{statistics.median(times):9.1f}{max(times):9.1f}"
          f"{statistics.median(sizes) / 1000:9.0f}")


def tiles(document, rng, by, detail):
    """Yields paths of random tiles, uniform over levels."""
    for _ in range(4 * REQUESTS):
        level = rng.randrange(document["levels"])
        width = document["columns"] << (document["levels"] - 1 - level)
        index = rng.randrange(-(-document["entries"] // width))
        yield f"d/0/tile?by={by}&level={level}&index={index}&detail={detail}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("file")
    parser.add_argument("--cli", default=str(ROOT / "build" / "release" / "bin" / "ashlar"))
    arguments = parser.parse_args()
    started = time.monotonic()
    server = subprocess.Popen([arguments.cli, "view", arguments.file, "--no-browser"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    browser = Browser(server.stdout.readline().strip())
    document = wait_for_scene(browser)
    browser.get("d/0/tile?by=allocation&level=0&index=0&detail=0")
    print(f"{document['entries']} entries; first tile after {time.monotonic() - started:.1f} s")
    rng = random.Random(1)
    print(f"{'ms':>43}{'max':>9}{'kB':>9}")
    for by, detail in (("allocation", 0), ("allocation", 4), ("stack", 0)):
        measure(browser, f"tile by {by}, detail {detail}", tiles(document, rng, by, detail))
    top = "d/0/tile?by=allocation&level=0&index=0&detail="
    measure(browser, "the whole run, detail 0 to 4", [top + str(detail) for detail in range(5)])
    for what in ("map", "stacks"):
        moments = [rng.randrange(document["entries"]) for _ in range(REQUESTS)]
        measure(browser, what, [f"d/0/{what}?at={moment}" for moment in moments])
    rows = "d/0/allocations?sort={}&order=down&from={}&count=100&at=all&search="
    measure(browser, "table, new order", [rows.format(key, 0) for key in ("bytes", "age")])
    measure(browser, "table, scrolled", [rows.format("age", 100 * i) for i in range(REQUESTS)])
    with open(f"/proc/{server.pid}/status", encoding="ascii") as status:
        print("".join(line for line in status if line.startswith(("VmHWM", "VmRSS"))), end="")
    server.send_signal(signal.SIGINT)
    return server.wait()


if __name__ == "__main__":
    sys.exit(main())
