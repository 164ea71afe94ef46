// Who holds memory at the moment, the greatest first; compared with the other moment, who changed
// the most. Doubles as the legend of the colours.
import { cssColor } from "../model/colors.ts";
import { formatBytes, formatChange, formatShare, plural } from "../model/format.ts";
import { stackTitle } from "../model/frames.ts";
import { answers, coloring, moment, otherMoment, stacks, stacksRecorded } from "../session.ts";
import { documentNumber, isSelected, select } from "../state.ts";
import { theme } from "../theme.ts";
import { useAnswer } from "./use_answer.ts";

const kShown = 12;

interface Holder {
  stack: number;
  bytes: number;
  count: number;
  before: number;
}

async function holdersAt(number: number, at: number, other: number | null): Promise<Holder[]> {
  const ask = answers.peek()!;
  const now = await ask.stackBytes(number, at);
  const holders = new Map<number, Holder>();
  now.stack.forEach((stack, i) => {
    holders.set(stack, { stack, bytes: now.bytes[i], count: now.count[i], before: 0 });
  });
  if (other === null) return [...holders.values()];
  const before = await ask.stackBytes(number, other);
  before.stack.forEach((stack, i) => {
    const holder = holders.get(stack);
    if (holder) holder.before = before.bytes[i];
    else holders.set(stack, { stack, bytes: 0, count: 0, before: before.bytes[i] });
  });
  const change = (holder: Holder) => Math.abs(holder.bytes - holder.before);
  return [...holders.values()].sort((a, b) => change(b) - change(a));
}

export function Holders() {
  const number = documentNumber.value;
  const at = moment.value;
  const other = otherMoment.value;
  const { value: holders, error } = useAnswer(
    () => holdersAt(number, at, other),
    `${number} ${at} ${other}`,
  );
  if (error) return <p class="soft">{error}</p>;
  if (!holders || !stacks.value) return null;
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
  const total = holders.reduce((sum, holder) => sum + holder.bytes, 0);
  return (
    <section class={other === null ? "holders" : "holders compared"}>
      <h2>{other === null ? "Who holds it" : "Who changed since B"}</h2>
      <ol>
        {holders.slice(0, kShown).map((holder) => (
          <li key={holder.stack}>
            <button
              type="button"
              aria-pressed={isSelected("stack", holder.stack)}
              onClick={() => select("stack", holder.stack)}
            >
              <i
                class="swatch"
                style={{ background: cssColor(coloring.value.stack.of(holder.stack, theme.value)) }}
              />
              <span class="name">{stackTitle(stacks.value, holder.stack)}</span>
              <span class="number">
                {other === null
                  ? formatBytes(holder.bytes)
                  : formatChange(holder.bytes - holder.before)}
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
