// SPDX-License-Identifier: Apache-2.0
//
// Keys, and what the pictures mean. Written from the tables that the keyboard itself uses.
import { useEffect, useRef } from "preact/hooks";
import { helpShown, type Key, kEverywhere, viewKeys } from "../keys.ts";
import { scene } from "../session.ts";

export function Help() {
  return helpShown.value ? <Dialog /> : null;
}

// The browser keeps the focus within, and closes it with Esc.
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
          {kEverywhere.map((key) => (
            <Line key={key.says} of={key} />
          ))}
        </dl>
        {viewKeys.value.length > 0 && (
          <>
            <h2>In this view</h2>
            <dl>
              {viewKeys.value.map((key) => (
                <Line key={key.says} of={key} />
              ))}
            </dl>
          </>
        )}
        <h2>Words</h2>
        <dl>
          <dt>requested</dt>
          <dd>what owners asked for and have not freed</dd>
          <dt>reserved</dt>
          <dd>what the allocator had taken from the device</dd>
          <dt>lower bound</dt>
          <dd>no allocator could have done with less</dd>
          <dt>entry</dt>
          <dd>a position in the trace; the moment just after it</dd>
        </dl>
        <p class="soft">
          {scene.value?.program} · colours after Okabe and Ito, which can be told apart with any
          colour vision
        </p>
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
      <dd>{of.says}</dd>
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
