// SPDX-License-Identifier: Apache-2.0
//
// Who holds memory at the moment, the greatest first; compared with the other moment, who changed
// the most. Doubles as the legend of the colours.
import { cssColor } from "../model/colors.ts";
import { formatBytes, formatChange, formatShare, plural } from "../model/format.ts";
import { stackTitle } from "../model/frames.ts";
import { changeOf } from "../model/stack_use.ts";
import { selectedStack } from "../selected.ts";
import { coloring, otherMoment, stacks, stacksRecorded } from "../session.ts";
import { isSelected, select } from "../state.ts";
import { theme } from "../theme.ts";
import { useStackUse } from "./use_answer.ts";

const kShown = 12;

export function Holders() {
  const other = otherMoment.value;
  const { value, error } = useStackUse();
  if (error) return <p class="soft">{error}</p>;
  if (!value || !stacks.value) return null;
  if (!stacksRecorded.value) {
    return (
      <section>
        <h2>Who holds it</h2>
        <p class="soft">
          There are no stacks in this trace: record with <code>context="all"</code> to see who
          allocates. Colours tell single allocations apart.
        </p>
      </section>
    );
  }
  const change = (holder: (typeof value)[0]) => Math.abs(changeOf(holder));
  const holders = other === null ? value : value.toSorted((a, b) => change(b) - change(a));
  const total = holders.reduce((sum, holder) => sum + holder.bytes, 0);
  return (
    <section class={other === null ? "holders" : "holders compared"}>
      <h2>{other === null ? "Who holds it" : "Who changed since B"}</h2>
      <ol>
        {holders.slice(0, kShown).map((holder) => (
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
      {holders.length > kShown && (
        <p class="soft">and {plural(holders.length - kShown, "more stack")}; the table has all.</p>
      )}
    </section>
  );
}
