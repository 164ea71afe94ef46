# SPDX-License-Identifier: Apache-2.0
"""History, snapshots, and hooks."""

import errno
import gc
import sys
import threading
import time
import weakref

import pytest

import ashlar


def actions(snapshot):
    return [entry["action"] for entry in snapshot["device_traces"][0]]


def test_snapshot_has_pytorch_format(allocator):
    allocator.start_history()
    assert allocator.is_history_on
    buffer = allocator.allocate(1000)
    buffer.annotate("mine")
    snapshot = allocator.snapshot()
    assert {"alloc", "annotate"} <= set(actions(snapshot))
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    assert 1000 in [block["requested_size"] for block in blocks]
    assert actions(allocator.snapshot(include_traces=False)) == []
    allocator.stop_history()
    assert not allocator.is_history_on


def test_snapshot_contains_extents(allocator):
    buffer = allocator.allocate(32 << 20)
    snapshot = allocator.snapshot(include_traces=False)
    ours = snapshot["ashlar"]
    assert ours["version"] == 1
    segment = next(each for each in snapshot["segments"] if each["total_size"] >= 32 << 20)
    extents = [each for each in ours["extents"]
               if 0 <= each.get("home", 0) - segment["address"] < segment["total_size"]]
    assert sum(each["size"] for each in extents) == segment["total_size"]
    for extent in extents:
        assert extent["home"] in [mapping["address"] for mapping in extent["mappings"]]
    assert buffer.address in [view["address"] for view in ours["views"]]
    assert ashlar.load(snapshot)


def test_stacks_contain_python_frames(allocator):
    allocator.start_history("all")

    def innermost():
        return allocator.allocate(1000)

    buffer = innermost()
    line = innermost.__code__.co_firstlineno + 1
    entry = next(entry for entry in allocator.snapshot()["device_traces"][0]
                 if entry["action"] == "alloc")
    first, second = entry["frames"][:2]
    assert first["name"].endswith("innermost") and first["filename"] == __file__
    assert first["line"] == line
    assert second["name"].endswith("test_stacks_contain_python_frames")
    buffer.free()


def test_recording_does_not_leak_code_objects(allocator):
    allocator.start_history("all", max_entries=100)
    first = compile("allocator.allocate(8)", "<made>", "exec")
    last = weakref.ref(first)
    exec(first, {"allocator": allocator})  # pylint: disable=exec-used
    del first
    for number in range((1 << 14) + 10):  # slightly more than the cache of code positions holds
        code = compile("allocator.allocate(8)", f"<made {number % 50}>", "exec")
        exec(code, {"allocator": allocator})  # pylint: disable=exec-used
    assert last() is None
    frames = [entry["frames"][0] for entry in allocator.snapshot()["device_traces"][0]
              if entry["action"] == "alloc"]
    assert frames[-1]["filename"] == f"<made {number % 50}>" and frames[-1]["line"] == 1


def test_stacks_support_non_utf8_file_names(allocator):
    allocator.start_history("all")
    code = compile("allocator.allocate(8)", "\udcff.py", "exec")
    exec(code, {"allocator": allocator})  # pylint: disable=exec-used
    entry = next(entry for entry in allocator.snapshot()["device_traces"][0]
                 if entry["action"] == "alloc")
    assert entry["frames"][0]["filename"] == "\\udcff.py"


def test_native_stacks_are_optional(allocator):
    allocator.start_history("all", native=True)
    allocator.allocate(1000).free()
    names = [frame["name"] for entry in allocator.snapshot()["device_traces"][0]
             for frame in entry.get("frames", ())]
    assert any("test_native_stacks" in name for name in names)
    assert any("Py" in name or "ashlar" in name for name in names)


def test_history_is_bounded_and_restartable(allocator):
    allocator.start_history(None, max_entries=5)
    for _ in range(10):
        allocator.allocate(1000).free()
    assert len(actions(allocator.snapshot())) == 5
    allocator.start_history(None, clear=True)
    assert "alloc" not in actions(allocator.snapshot())
    with pytest.raises(ashlar.InvalidArgument, match='stacks: "some" is unknown'):
        allocator.start_history("some")


def test_regions_appear_as_annotations(allocator):
    allocator.start_history()
    with allocator.region("step 7"):
        allocator.annotate(loss=0.5)
    annotations = allocator.snapshot()["external_annotations"]
    assert [each.get("stage") for each in annotations] == ["START", None, "END"]
    assert annotations[0]["name"] == "step 7" and annotations[1]["loss"] == "0.5"


def test_a_saved_snapshot_can_be_loaded(allocator, tmp_path):
    allocator.start_history()
    kept = allocator.allocate(1000)
    path = tmp_path / "größe.pickle"
    allocator.save_snapshot(path)
    recording = ashlar.load(path)
    assert recording.summary()["peak_requested_bytes"] == 1000
    assert recording.summary()["file"] == str(path)
    kept.free()
    missing = tmp_path / "no" / "folder"
    with pytest.raises(OSError, match="No such file") as caught:
        allocator.save_snapshot(missing)
    assert isinstance(caught.value, ashlar.FileError)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(missing))
    with pytest.raises(ashlar.InvalidArgument, match="without NUL"):
        allocator.save_snapshot(str(path) + "\0.txt")
    non_utf8 = tmp_path / "\udcff.pickle"
    allocator.save_snapshot(non_utf8)
    assert ashlar.load(non_utf8).summary()["live_bytes_at_end"] == 0


def test_oom_observers_run_before_exception(allocator):
    heard = []
    allocator.add_oom_observer(heard.append)
    with pytest.raises(MemoryError):
        allocator.allocate("2GiB")
    assert len(heard) == 1
    assert heard[0]["wanted_bytes"] == 2 << 30 and heard[0]["device"] == 0


def test_rejection_observers_are_called(machine):
    allocator = ashlar.Allocator(machine.device(0),
                                 "per_process_memory_fraction:0.1,throw_on_cudamalloc_oom:True")
    heard = []
    allocator.add_rejection_observer(heard.append)
    with pytest.raises(MemoryError):
        allocator.allocate("500MiB")
    assert len(heard) == 1


def test_free_memory_callback_can_free_memory(allocator):
    cache = [allocator.allocate("700MiB")]

    def free_some():
        had = bool(cache)
        cache.clear()
        return had

    allocator.add_free_memory_callback(free_some)
    assert allocator.allocate("700MiB").size == 700 << 20
    assert cache == []


def test_trackers_see_operations_of_all_threads(allocator):
    seen = []
    allocator.add_tracker(seen.append)
    threads = [threading.Thread(target=lambda: allocator.allocate(1000).free()) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    actions = [entry["action"] for entry in seen]
    assert actions.count("alloc") == 4 and actions.count("free_completed") == 4
    assert all(abs(entry["time_us"] * 1e-6 - time.time()) < 60 for entry in seen)


def test_exception_in_hook_goes_to_unraisablehook(allocator, monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: reported.append(args.exc_type))

    def fails(_):
        raise KeyError("of the observer")

    allocator.add_oom_observer(fails)
    with pytest.raises(ashlar.OutOfMemoryError):
        allocator.allocate("2GiB")
    assert reported == [KeyError]
    with pytest.raises(TypeError):
        allocator.add_oom_observer("no function")


def test_hooks_are_released_with_allocator(machine):
    class Observer:
        def __call__(self, _):
            pass

    observer = Observer()
    last = weakref.ref(observer)
    allocator = ashlar.Allocator(machine.device(0))
    allocator.add_oom_observer(observer.__call__)
    buffer = allocator.allocate(8)
    del observer, allocator
    gc.collect()
    assert last() is not None, "the buffer keeps its allocator"
    del buffer
    assert last() is None
