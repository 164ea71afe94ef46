// SPDX-License-Identifier: Apache-2.0
//
// The help page: keys, generated from the tables in keys.ts, and terms.
import { useEffect, useRef } from "preact/hooks";
import { helpShown, type Key, kGlobalKeys, viewKeys } from "../keys.ts";
import { scene } from "../session.ts";

export function Help() {
  return helpShown.value ? <Dialog /> : null;
}

// The browser traps the focus in the dialog and closes it with Esc.
function Dialog() {
  const host = useRef<HTMLDialogElement>(null);
  useEffect(() => host.current!.showModal(), []);
  const close = () => (helpShown.value = false);
  return (
    <dialog
      class="help"
      aria-label="Help"
      ref={host}
      onClose={close}
      onClick={(event) => event.target === event.currentTarget && close()}
    >
      <div>
        <button type="button" class="close" onClick={close} aria-label="Close" title="Key Esc">
          ×
        </button>
        <h2>Keys</h2>
        <dl>
          {kGlobalKeys.map((key) => (
            <Line key={key.description} of={key} />
          ))}
        </dl>
        {viewKeys.value.length > 0 && (
          <>
            <h2>In this view</h2>
            <dl>
              {viewKeys.value.map((key) => (
                <Line key={key.description} of={key} />
              ))}
            </dl>
          </>
        )}
        <h2>Terms</h2>
        <dl>
          <dt>requested</dt>
          <dd>bytes requested by the program and not yet freed</dd>
          <dt>reserved</dt>
          <dd>bytes that the allocator has obtained from the device</dd>
          <dt>lower bound</dt>
          <dd>peak of requested bytes; no allocator can reserve less</dd>
          <dt>entry</dt>
          <dd>position in the trace; the moment just after it</dd>
        </dl>
        <p class="soft">{scene.value?.program} · colours by Okabe and Ito, for any colour vision</p>
      </div>
    </dialog>
  );
}

function Line({ of }: { of: Key }) {
  return (
    <>
      <dt>
        {of.keys.map((key) => (
          <kbd key={key}>{nameOf(key)}</kbd>
        ))}
      </dt>
      <dd>{of.description}</dd>
    </>
  );
}

function nameOf(key: string): string {
  const arrows: Record<string, string> = {
    ArrowLeft: "←",
    ArrowRight: "→",
    ArrowUp: "↑",
    ArrowDown: "↓",
    Escape: "Esc",
  };
  const [last, shift] = key.split("+").reverse();
  return (shift ? "⇧ " : "") + (arrows[last] ?? (last || "+"));
}
