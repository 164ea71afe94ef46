// SPDX-License-Identifier: Apache-2.0
//
// Shown in place of the result of an analysis: progress, the error, or why the file does not permit
// the analysis.
import type { AnalysisResult } from "../api/scene.ts";

export function AnalysisState(props: {
  value: AnalysisResult | null;
  error: string | null;
  progress: string; // of the server, while it computes the result
  waiting: string; // shown before the first response
}) {
  const { value, error, progress, waiting } = props;
  if (error) return <p class="empty">{error}</p>;
  if (value?.cannot_tell) return <p class="empty">{value.cannot_tell}</p>;
  return (
    <p class="empty" data-loading>
      {progress || waiting} …
    </p>
  );
}
