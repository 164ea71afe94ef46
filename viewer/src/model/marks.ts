// SPDX-License-Identifier: Apache-2.0
//
// Annotations and OOMs of a document. Of very many the page is sent the first ones and their
// number: what lies behind the last of them is not known, and is not made up.
import type { DocumentScene } from "../ask/scene.ts";
import { formatCount, plural } from "./format.ts";

type Annotated = Pick<DocumentScene, "annotations" | "annotation_count">;
type Marked = Annotated & Pick<DocumentScene, "ooms" | "oom_count">;

// What was said last before a moment; null: nothing, or it is not known.
export function annotationBefore(document: Annotated, at: number): string | null {
  if (isBehindTheLast(document, at)) return null;
  return document.annotations.findLast((each) => each.entry <= at)?.text ?? null;
}

// Whether what was said last before a moment may be among those that were left out. They may begin
// at the very entry of the last one that was sent.
export function isBehindTheLast({ annotations, annotation_count }: Annotated, at: number): boolean {
  return annotations.length < annotation_count && at >= (annotations.at(-1)?.entry ?? 0);
}

// Null: all are marked.
export function leftOutSentence(document: Marked): string | null {
  const cut = [
    part(document.annotations.length, document.annotation_count, "annotation"),
    part(document.ooms.length, document.oom_count, "OOM"),
  ].filter((each) => each !== null);
  return cut.length > 0 ? `Marked are only ${cut.join(" and ")}.` : null;
}

function part(sent: number, count: number, noun: string): string | null {
  return sent < count ? `the first ${formatCount(sent)} of ${plural(count, noun)}` : null;
}
