// SPDX-License-Identifier: Apache-2.0
//
// Stacks whose memory grows with every iteration.
import type { Leak, Leaks } from "../api/scene.ts";
import { formatBytes, formatCount, plural } from "../model/format.ts";
import { reportedFrameText, stackNumberOf } from "../model/frames.ts";
import { stacks } from "../session.ts";
import { isSelected, select } from "../state.ts";
import { AnalysisState } from "./analysis_state.tsx";
import { useAnalysis } from "./use_request.ts";
import { WhatToDo } from "./what_to_do.tsx";

const kMaxShown = 50;

export function LeaksView() {
  const { value: leaks, error, progress } = useAnalysis("leaks");
  if (!leaks || leaks.cannot_tell) {
    const waiting = "Comparing the iterations";
    return <AnalysisState value={leaks} error={error} progress={progress} waiting={waiting} />;
  }
  return (
    <div class="report leaks">
      <WhatToDo sentences={adviceFor(leaks)} />
      <section>
        <h2>{titleOf(leaks)}</h2>
        {leaks.can_tell && (
          <p class="soft">
            Compared: {plural(leaks.iterations, "complete iteration")}, found from{" "}
            {leaks.iterations_from}.
          </p>
        )}
        {leaks.leaks.length > 0 && <LeakTable leaks={leaks.leaks} />}
      </section>
    </div>
  );
}

function titleOf(leaks: Leaks): string {
  if (!leaks.can_tell) return `Cannot tell whether memory leaks: ${leaks.problem}.`;
  const groups = leaks.grouped_by === "stack" ? "stack" : "group of similar size";
  if (leaks.leaks.length === 0) return `No leak found in ${plural(leaks.groups, groups)}`;
  const rate = leaks.leaks.reduce((sum, leak) => sum + leak.bytes_per_iteration, 0);
  return (
    `${formatBytes(rate)} per iteration are not freed, in ${plural(leaks.leaks.length, groups)} ` +
    `of ${formatCount(leaks.groups)}`
  );
}

function adviceFor({ leaks }: Leaks): string[] {
  const [largest] = leaks;
  if (!largest) return [];
  const rate = formatBytes(largest.bytes_per_iteration);
  if (!largest.stack || largest.stack.length === 0) {
    return [
      `Allocations from ${formatBytes(largest.size_class_bytes ?? 0)} grow by ${rate} per ` +
        "iteration. Record with stacks to see which code allocates them.",
    ];
  }
  return [
    `Find what keeps the results of ${reportedFrameText(largest.stack[0])} alive after an ` +
      `iteration: they grow by ${rate} per iteration. Typical causes are lists of losses or ` +
      "outputs that are not detached.",
  ];
}

function LeakTable({ leaks }: { leaks: Leak[] }) {
  return (
    <table class="plain" data-leaks={leaks.length}>
      <thead>
        <tr>
          <th class="number">per iteration</th>
          <th class="number">growth</th>
          <th class="number">live at the end</th>
          <th class="number">allocations</th>
          <th>after each iteration</th>
          <th>allocated by</th>
        </tr>
      </thead>
      <tbody>
        {leaks.slice(0, kMaxShown).map((leak, i) => (
          <LeakRow key={i} leak={leak} />
        ))}
      </tbody>
      {leaks.length > kMaxShown && (
        <tfoot>
          <tr>
            <td colSpan={6} class="soft">
              and {plural(leaks.length - kMaxShown, "smaller leak")}
            </td>
          </tr>
        </tfoot>
      )}
    </table>
  );
}

function LeakRow({ leak }: { leak: Leak }) {
  const number = leak.stack ? stackNumberOf(stacks.value, leak.stack) : null;
  return (
    <tr class={number !== null && isSelected("stack", number) ? "related" : ""}>
      <td class="number">{formatBytes(leak.bytes_per_iteration)}</td>
      <td class="number">{formatBytes(leak.growth_bytes)}</td>
      <td class="number">{formatBytes(leak.live_bytes)}</td>
      <td class="number">{formatCount(leak.live_count)}</td>
      <td>
        <Growth values={leak.live_bytes_after_iterations} />
      </td>
      <td class="frame">
        {number === null ? (
          originText(leak)
        ) : (
          <button type="button" class="link" onClick={() => select("stack", number)}>
            {originText(leak)}
          </button>
        )}
      </td>
    </tr>
  );
}

function originText(leak: Leak): string {
  if (leak.stack && leak.stack.length > 0) return reportedFrameText(leak.stack[0]);
  return `sizes from ${formatBytes(leak.size_class_bytes ?? 0)}, stream ${leak.stream ?? 0}`;
}

const kCurveWidth = 160;
const kCurveHeight = 24;

// A small curve. The vertical axis goes from 0 to the largest value.
function Growth({ values }: { values: number[] }) {
  const most = Math.max(1, ...values);
  const points = values.map((value, i) => {
    const x = values.length > 1 ? (i / (values.length - 1)) * kCurveWidth : kCurveWidth / 2;
    return `${x.toFixed(1)},${(kCurveHeight - 1 - (value / most) * (kCurveHeight - 2)).toFixed(1)}`;
  });
  return (
    <svg
      class="growth"
      width={kCurveWidth}
      height={kCurveHeight}
      role="img"
      aria-label="live bytes"
    >
      <polyline points={points.join(" ")} />
    </svg>
  );
}
