#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the metrics: the Prometheus text format with the strict parser in prometheus_text.py
and, if it is installed, promtool; OpenMetrics with the parser of Prometheus's Python client.

  test_metrics.py LIVE_PROGRAM"""

import json
import shutil
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

import prometheus_text
from live_program import LiveProgram

try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    text_string_to_metric_families = None

PROGRAM = sys.argv.pop()
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def families(text):
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.name not in found, f"{family.name} is listed twice"
        found[family.name] = family
    return found


def get(program, what, token=None, accept=None):
    base = program.address if token is None else program.address.rsplit("/", 2)[0] + "/"
    fields = {} if token is None else {"Authorization": f"Bearer {token}"}
    if accept:
        fields["Accept"] = accept
    with urllib.request.urlopen(urllib.request.Request(base + what, headers=fields)) as response:
        return response.headers["Content-Type"], response.read().decode()


def get_open_metrics(program):
    kind, text = get(program, "metrics", accept="application/openmetrics-text; version=1.0.0")
    assert kind == OPEN_METRICS, kind
    return families(text)


def hostile_metrics(*arguments):
    return subprocess.run([PROGRAM, "--hostile-metrics", *arguments], check=True,
                          stdout=subprocess.PIPE).stdout.decode()


class PrometheusTextTest(unittest.TestCase):
    def setUp(self):
        self.program = LiveProgram(PROGRAM, "--port")
        for word in ("allocate", "allocate", "free", "oom", "pin", "pin", "unpin"):
            self.program.send(word)

    def tearDown(self):
        self.program.end()

    def test_is_the_default(self):
        kind, text = get(self.program, "metrics")
        stats = json.loads(get(self.program, "stats")[1])["allocators"]
        self.assertEqual(kind, TEXT)
        found = prometheus_text.parse(text)
        self.assertEqual([value for _, value in found["ashlar_allocated_bytes"].samples],
                         [each["stats"]["allocated_bytes.all.current"] for each in stats])
        self.assertEqual(found["ashlar_ooms_total"].type, "counter")
        self.assertEqual(found["ashlar_ooms_total"].samples[0][1], 1)
        self.assertEqual(found["ashlar_build_info"].type, "gauge")
        self.assertEqual(found["ashlar_host_pins_total"].samples,
                         [({"host_allocator": "0", "backend": "sim", "device": "0"}, 2)])

    def test_every_name_is_documented(self):
        with open(DOCUMENT, encoding="utf-8") as document:
            words = document.read()
        for name in prometheus_text.parse(get(self.program, "metrics")[1]):
            self.assertIn(f"`{name}`", words)

    def test_escapes_special_characters(self):
        labels = prometheus_text.parse(hostile_metrics())["ashlar_allocator_info"].samples[0][0]
        self.assertEqual(labels["backend"], 's"i\\m\n')
        self.assertTrue(labels["device_name"].startswith('a "GPU"\\ of\nours } 1\n# EOF\ufffd'))

    def test_has_the_values_of_openmetrics(self):
        if text_string_to_metric_families is None:
            self.skipTest("prometheus_client is not installed")
        plain = prometheus_text.parse(get(self.program, "metrics")[1])
        series = {name: family.samples for name, family in plain.items()}
        opened = {}
        for family in get_open_metrics(self.program).values():
            suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
            opened[family.name + suffix] = [(each.labels, each.value) for each in family.samples]
        del series["ashlar_monitored_seconds"], opened["ashlar_monitored_seconds"]
        self.assertEqual(series, opened)

    def test_promtool_finds_no_problem(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            self.skipTest("promtool is not installed (package prometheus)")
        for text in (get(self.program, "metrics")[1], hostile_metrics()):
            ended = subprocess.run([promtool, "check", "metrics"], input=text.encode(),
                                   capture_output=True, check=False)
            self.assertEqual((ended.returncode, ended.stdout + ended.stderr), (0, b""))


class StrictParserTest(unittest.TestCase):
    """The parser rejects what Prometheus or promtool rejects."""

    GOOD = "# HELP a_total Help.\n# TYPE a_total counter\na_total{b=\"c\"} 1\n"

    def test_accepts_wellformed_text(self):
        self.assertEqual(prometheus_text.parse(self.GOOD)["a_total"].samples, [({"b": "c"}, 1)])

    def test_rejects_violations(self):
        for old, new in (("1\n", "1"), ("a_total", "a"), ("counter", "info"), ("counter", "gauge"),
                         ("# HELP a_total Help.\n", ""), ("# TYPE a_total counter\n", ""),
                         (" 1", " x"), (" 1", ""), ('c"', 'c'), ('c"', '\\x"'), ("}", ",}"),
                         ('{b="c"}', '{b="c",b="d"}'), ("# HELP", "# UNIT"), ("\n", "\n\n"),
                         ("a_total", "a_ms_total"), (" 1", " -1"), ("1\n", "1\n# EOF\n")):
            with self.assertRaises(AssertionError, msg=(old, new)):
                prometheus_text.parse(self.GOOD.replace(old, new))
        with self.assertRaises(AssertionError):
            prometheus_text.parse(self.GOOD + 'a_total{b="c"} 1\n')
        with self.assertRaises(AssertionError):
            prometheus_text.parse(self.GOOD + self.GOOD.replace("a_", "c_") + 'a_total{b="d"} 1\n')


@unittest.skipIf(text_string_to_metric_families is None,
                 "prometheus_client is not installed (package python3-prometheus-client)")
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
            found = get_open_metrics(program)
            stats = json.loads(get(program, "stats")[1])
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
            nothing = get_open_metrics(program)
            for word in ("pin", "pin", "unpin"):
                program.send(word)
            found = get_open_metrics(program)
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

    def test_escapes_special_characters(self):
        found = families(hostile_metrics("--openmetrics"))
        labels = found["ashlar_allocator"].samples[0].labels
        self.assertEqual(labels["backend"], 's"i\\m\n')
        self.assertTrue(labels["device_name"].startswith('a "GPU"\\ of\nours } 1\n# EOF\ufffd'))
        self.assertEqual(found["ashlar_ooms"].samples[0].value, 2)


class AccessTest(unittest.TestCase):
    def expect_error(self, program, code, token=None):
        with self.assertRaises(urllib.error.HTTPError) as refused:
            get(program, "metrics", token)
        with refused.exception as response:
            self.assertEqual(response.code, code)
            self.assertIn("token", json.load(response)["error"])
            return response.headers

    def test_requires_the_token(self):
        with LiveProgram(PROGRAM, "--port") as program:
            token = program.address.rsplit("/", 2)[1]
            self.assertIn("ashlar_blocks", get(program, "metrics", token)[1])
            self.expect_error(program, 403, "0" * 32)
            headers = self.expect_error(program, 401, "")
            self.assertEqual(headers["WWW-Authenticate"], 'Bearer realm="ashlar"')


DOCUMENT = __file__.rsplit("/", 3)[0] + "/docs/reference/formats/live.md"

if __name__ == "__main__":
    unittest.main()
