// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import {
  annotationBefore,
  isAfterTruncation,
  nearestOom,
  truncationNote,
} from "../../src/model/annotations.ts";

const annotations = [
  { entry: 5, text: "step 1" },
  { entry: 9, text: "step 2" },
];
const all = { annotations, annotation_count: 2, ooms: [], oom_count: 0 };
const cut = { ...all, annotation_count: 12_000 };

test("finds the last annotation before a moment", () => {
  expect(annotationBefore(all, 4)).toBe(null);
  expect(annotationBefore(all, 5)).toBe("step 1");
  expect(annotationBefore(all, 8)).toBe("step 1");
  expect(annotationBefore(all, 100)).toBe("step 2");
  expect(isAfterTruncation(all, 100)).toBe(false);
});

test("names no annotation after the truncation", () => {
  expect(annotationBefore(cut, 8)).toBe("step 1");
  expect(isAfterTruncation(cut, 8)).toBe(false);
  for (const at of [9, 100]) {
    expect(annotationBefore(cut, at)).toBe(null);
    expect(isAfterTruncation(cut, at)).toBe(true);
  }
});

test("counts truncated annotations", () => {
  expect(truncationNote(all)).toBe(null);
  expect(truncationNote(cut)).toBe("Shown: only the first 2 of 12,000 annotations.");
  expect(truncationNote({ ...cut, oom_count: 3 })).toBe(
    "Shown: only the first 2 of 12,000 annotations and the first 0 of 3 OOMs.",
  );
});

test("finds the failure nearest to a moment, on either side", () => {
  const ooms = [3, 50, 90].map((entry) => ({ entry, requested: 1, free: 1 }));
  expect(nearestOom({ ooms }, 45)?.entry).toBe(50);
  expect(nearestOom({ ooms }, 60)?.entry).toBe(50);
  expect(nearestOom({ ooms }, 0)?.entry).toBe(3);
  expect(nearestOom({ ooms: [] }, 45)).toBe(null);
});
