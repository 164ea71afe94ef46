#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the metrics with Prometheus's strict OpenMetrics parser.

  test_openmetrics.py LIVE_PROGRAM"""

import json
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

from live_program import LiveProgram

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    print("SKIPPED: prometheus_client is not installed (package python3-prometheus-client): "
          "the OpenMetrics text was NOT checked by a parser")
    sys.exit(77)

PROGRAM = sys.argv.pop()


def families(text):
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.name not in found, f"{family.name} is listed twice"
        found[family.name] = family
    return found


def get(program, what, token=None):
    base = program.address if token is None else program.address.rsplit("/", 2)[0] + "/"
    fields = {} if token is None else {"Authorization": f"Bearer {token}"}
    with urllib.request.urlopen(urllib.request.Request(base + what, headers=fields)) as response:
        return response.headers["Content-Type"], response.read().decode()


class OpenMetricsTest(unittest.TestCase):
    def expect_values(self, found, names, allocators):
        """Expects that each metric has the value of its statistic, for each allocator."""
        for name, stat in names.items():
            values = [sample.value for sample in found[name].samples]
            self.assertEqual(values, [each["stats"][stat] for each in allocators], name)

    def test_parses_and_matches_stats(self):
        with LiveProgram(PROGRAM, "--port") as program:
            for word in ("allocate", "allocate", "free", "oom", "record"):
                program.send(word)
            kind, text = get(program, "metrics")
            stats = json.loads(get(program, "stats")[1])
        self.assertEqual(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8")
        found = families(text)
        names = {
            "ashlar_reserved_bytes": "reserved_bytes.all.current",
            "ashlar_reserved_peak_bytes": "reserved_bytes.all.peak",
            "ashlar_allocated_bytes": "allocated_bytes.all.current",
            "ashlar_active_bytes": "active_bytes.all.current",
            "ashlar_requested_peak_bytes": "requested_bytes.all.peak",
            "ashlar_blocks": "allocation.all.current",
            "ashlar_allocations": "allocation.all.allocated",
            "ashlar_frees": "allocation.all.freed",
            "ashlar_device_allocs": "num_device_alloc",
            "ashlar_ooms": "num_ooms",
        }
        self.expect_values(found, names, stats["allocators"])
        self.assertEqual(found["ashlar_ooms"].samples[0].value, 1)
        self.assertEqual(found["ashlar_history_recording"].samples[0].value, 1)
        self.assertEqual(found["ashlar_frees"].type, "counter")
        self.assertEqual(found["ashlar_reserved_bytes"].type, "gauge")
        self.assertEqual(found["ashlar_reserved_bytes"].unit, "bytes")
        labels = found["ashlar_blocks"].samples[1].labels
        self.assertEqual((labels["backend"], labels["device"], labels["engine"]),
                         ("sim", "1", "classic"))
        pools = {sample.labels["pool"] for sample in found["ashlar_pool_blocks"].samples}
        self.assertIn("0_0", pools)

    def test_has_pinned_memory_metrics(self):
        with LiveProgram(PROGRAM, "--port") as program:
            nothing = families(get(program, "metrics")[1])
            for word in ("pin", "pin", "unpin"):
                program.send(word)
            found = families(get(program, "metrics")[1])
            stats = json.loads(get(program, "stats")[1])["host_allocators"]
        self.assertEqual(found.keys(), nothing.keys())
        self.assertEqual(nothing["ashlar_host_reserved_bytes"].samples, [])
        names = {
            "ashlar_host_reserved_bytes": "allocated_bytes.current",
            "ashlar_host_reserved_peak_bytes": "allocated_bytes.peak",
            "ashlar_host_active_bytes": "active_bytes.current",
            "ashlar_host_active_peak_bytes": "active_bytes.peak",
            "ashlar_host_requested_bytes": "requested_bytes.current",
            "ashlar_host_pending_bytes": "pending_bytes.current",
            "ashlar_host_graph_bytes": "graph_bytes.current",
            "ashlar_host_blocks": "active_requests.current",
            "ashlar_host_allocations": "active_requests.allocated",
            "ashlar_host_pins": "num_host_alloc",
            "ashlar_host_unpins": "num_host_free",
            "ashlar_host_ooms": "num_ooms",
        }
        self.expect_values(found, names, stats)
        self.assertEqual(found["ashlar_host_active_bytes"].samples[0].value, 8 << 20)
        self.assertEqual(found["ashlar_host_active_peak_bytes"].samples[0].value, 16 << 20)
        self.assertEqual(found["ashlar_host_allocations"].type, "counter")
        self.assertEqual(found["ashlar_host_pins"].samples[0].labels,
                         {"host_allocator": "0", "backend": "sim", "device": "0"})

    def test_every_name_is_documented(self):
        with LiveProgram(PROGRAM, "--port") as program:
            found = families(get(program, "metrics")[1])
        with open(DOCUMENT, encoding="utf-8") as document:
            words = document.read()
        for name, family in found.items():
            suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
            self.assertIn(f"`{name}{suffix}`", words)

    def test_escapes_special_characters(self):
        text = subprocess.run([PROGRAM, "--hostile-metrics"], check=True,
                              stdout=subprocess.PIPE).stdout.decode()
        found = families(text)
        labels = found["ashlar_allocator"].samples[0].labels
        self.assertEqual(labels["backend"], 's"i\\m\n')
        self.assertTrue(labels["device_name"].startswith('a "GPU"\\ of\nours } 1\n# EOF\ufffd'))
        self.assertEqual(found["ashlar_ooms"].samples[0].value, 2)

    def test_requires_the_token(self):
        with LiveProgram(PROGRAM, "--port") as program:
            token = program.address.rsplit("/", 2)[1]
            self.assertIn("# EOF", get(program, "metrics", token)[1])
            with self.assertRaises(urllib.error.HTTPError) as refused:
                get(program, "metrics", "0" * 32)
            with refused.exception as response:
                self.assertEqual(response.code, 404)


DOCUMENT = __file__.rsplit("/", 3)[0] + "/docs/reference/formats/live.md"

if __name__ == "__main__":
    unittest.main()
