// SPDX-License-Identifier: Apache-2.0
//
// Live bytes of two documents at their peaks by stack, largest difference first.
import { client, momentOf } from "../session.ts";
import { deltaOf, type StackChange, stackChanges } from "../model/compare.ts";
import type { DocumentScene } from "../api/scene.ts";
import { formatBytes, formatChange, formatCount, plural } from "../model/format.ts";
import { selectedStack } from "../selection_details.ts";
import { select } from "../state.ts";
import { useRequest } from "./use_request.ts";

const kMaxShown = 50;

async function changesOf(documents: DocumentScene[], of: [number, number]): Promise<StackChange[]> {
  const api = client.peek()!;
  const [base, other] = await Promise.all(
    of.map(async (number) => ({
      stacks: await api.stacks(number),
      bytes: await api.stackBytes(number, momentOf(documents[number], null)),
    })),
  );
  return stackChanges(base, other);
}

export function CompareStacks({
  documents,
  of,
}: {
  documents: DocumentScene[];
  of: [number, number];
}) {
  const { value: changes, error } = useRequest(() => changesOf(documents, of), of.join(" "));
  if (error) return <p class="empty">{error}</p>;
  if (!changes) return null;
  const differing = changes.filter((change) => deltaOf(change) !== 0);
  return (
    <section>
      <h2>Live bytes at the peaks, by stack</h2>
      <p class="soft">
        Stacks are equal if function, file and line of all frames are equal.{" "}
        {plural(differing.length, "stack")} of {formatCount(changes.length)} differ.
      </p>
      <table class="plain">
        <thead>
          <tr>
            <th class="number">B − A</th>
            <th class="number">A</th>
            <th class="number">B</th>
            <th class="number">allocations</th>
            <th>allocated by</th>
          </tr>
        </thead>
        <tbody>
          {differing.slice(0, kMaxShown).map((change) => (
            <tr key={change.key} class={isChosen(change) ? "related" : ""}>
              <td class={`number ${deltaOf(change) > 0 ? "grew" : "shrank"}`}>
                {formatChange(deltaOf(change))}
              </td>
              <td class="number">{formatBytes(change.bytes[0])}</td>
              <td class="number">{formatBytes(change.bytes[1])}</td>
              <td class="number">
                {formatCount(change.count[0])} → {formatCount(change.count[1])}
              </td>
              <td class="frame" title={change.key}>
                <Stack change={change} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

// Whether the stack of a change is selected. The selection refers to the current document, A.
function isChosen({ stack }: StackChange): boolean {
  return stack[0] !== null && stack[0] === selectedStack.value;
}

function Stack({ change }: { change: StackChange }) {
  const [stack] = change.stack;
  if (stack === null) return <>{innermost(change.key)}</>; // only in B
  return (
    <button type="button" class="link" onClick={() => select("stack", stack)}>
      {innermost(change.key)}
    </button>
  );
}

function innermost(key: string): string {
  return key === "" ? "no stack recorded" : key.slice(key.lastIndexOf("\n") + 1);
}
