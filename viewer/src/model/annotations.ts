// SPDX-License-Identifier: Apache-2.0
//
// Annotations and out-of-memory errors of a document. The server truncates long lists, so
// annotations after the last annotation in the list are unknown.
import type { DocumentScene } from "../api/scene.ts";
import { formatCount, plural } from "./format.ts";

type Annotated = Pick<DocumentScene, "annotations" | "annotation_count">;
type Marked = Annotated & Pick<DocumentScene, "ooms" | "oom_count">;

// Returns the last annotation at or before a moment; null if there is none or it is unknown.
export function annotationBefore(document: Annotated, at: number): string | null {
  if (isAfterTruncation(document, at)) return null;
  return document.annotations.findLast((each) => each.entry <= at)?.text ?? null;
}

// Returns whether the server may have omitted the last annotation at or before a moment. Omitted
// annotations may have the same entry as the last annotation that was sent.
export function isAfterTruncation(
  { annotations, annotation_count }: Annotated,
  at: number,
): boolean {
  return annotations.length < annotation_count && at >= (annotations.at(-1)?.entry ?? 0);
}

// Returns the failure with the fewest entries between it and a moment; null if there was none.
export function nearestOom(
  { ooms }: Pick<DocumentScene, "ooms">,
  at: number,
): DocumentScene["ooms"][0] | null {
  const distance = (oom: { entry: number }) => Math.abs(oom.entry - at);
  return ooms.reduce<DocumentScene["ooms"][0] | null>(
    (best, oom) => (best && distance(best) <= distance(oom) ? best : oom),
    null,
  );
}

// Returns a note about lists that were truncated; null if no list was truncated.
export function truncationNote(document: Marked): string | null {
  const cut = [
    truncatedText(document.annotations.length, document.annotation_count, "annotation"),
    truncatedText(document.ooms.length, document.oom_count, "OOM"),
  ].filter((each) => each !== null);
  return cut.length > 0 ? `Shown: only ${cut.join(" and ")}.` : null;
}

function truncatedText(sent: number, count: number, noun: string): string | null {
  return sent < count ? `the first ${formatCount(sent)} of ${plural(count, noun)}` : null;
}
