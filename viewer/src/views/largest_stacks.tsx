// SPDX-License-Identifier: Apache-2.0
//
// Stacks with the most live bytes at the moment, or with the largest change. Also the colour
// legend.
import { cssColor } from "../model/colors.ts";
import { formatBytes, formatChange, formatShare, plural } from "../model/format.ts";
import { stackTitle } from "../model/frames.ts";
import { changeOf } from "../model/stack_use.ts";
import { selectedStack } from "../selection_details.ts";
import { coloring, otherMoment, stacks, stacksRecorded } from "../session.ts";
import { isSelected, select } from "../state.ts";
import { theme } from "../theme.ts";
import { useStackUse } from "./use_request.ts";

const kMaxShown = 12;

export function LargestStacks() {
  const other = otherMoment.value;
  const { value, error } = useStackUse();
  if (error) return <p class="soft">{error}</p>;
  if (!value || !stacks.value) return null;
  if (!stacksRecorded.value) {
    return (
      <section>
        <h2>Largest stacks</h2>
        <p class="soft">
          This trace has no stacks. Record with <code>context="all"</code> to see which code
          allocates. Colours distinguish allocations.
        </p>
      </section>
    );
  }
  const change = (holder: (typeof value)[0]) => Math.abs(changeOf(holder));
  const holders = other === null ? value : value.toSorted((a, b) => change(b) - change(a));
  const total = holders.reduce((sum, holder) => sum + holder.bytes, 0);
  return (
    <section class={other === null ? "holders" : "holders compared"}>
      <h2>{other === null ? "Largest stacks" : "Largest changes since B"}</h2>
      <ol>
        {holders.slice(0, kMaxShown).map((holder) => (
          <li key={holder.stack}>
            <button
              type="button"
              class={selectedStack.value === holder.stack ? "related" : ""}
              aria-pressed={isSelected("stack", holder.stack)}
              onClick={() => select("stack", holder.stack)}
            >
              <i
                class="swatch"
                style={{ background: cssColor(coloring.value.stack.of(holder.stack, theme.value)) }}
              />
              <span class="name">{stackTitle(stacks.value, holder.stack)}</span>
              <span class="number">
                {other === null ? formatBytes(holder.bytes) : formatChange(changeOf(holder))}
              </span>
              {other === null && <small>{formatShare(holder.bytes, total)}</small>}
            </button>
          </li>
        ))}
      </ol>
      {holders.length > kMaxShown && (
        <p class="soft">
          and {plural(holders.length - kMaxShown, "more stack")}; the table has all.
        </p>
      )}
    </section>
  );
}
