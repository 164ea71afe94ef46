// SPDX-License-Identifier: Apache-2.0
//
// A group of buttons, of which one is pressed.
import type { Signal } from "@preact/signals";

export function Choice<T extends string>(props: {
  title: string; // shown before the buttons; may be empty if `label` is set
  label?: string;
  of: Signal<T>;
  choices: readonly T[];
}) {
  const { title, of, choices } = props;
  return (
    <div class="choice" role="group" aria-label={props.label ?? title}>
      {title && <span>{title}</span>}
      {choices.map((name) => (
        <button
          type="button"
          key={name}
          aria-pressed={of.value === name}
          onClick={() => (of.value = name)}
        >
          {name}
        </button>
      ))}
    </div>
  );
}
