// SPDX-License-Identifier: Apache-2.0
//
// A button to open additional files.
import type { ComponentChildren } from "preact";
import { openFiles } from "../session.ts";

// The input is invisible but not hidden, so that it can be reached by keyboard.
export function ChooseFile(props: { class: string; title?: string; children: ComponentChildren }) {
  return (
    <label class={props.class} title={props.title}>
      {props.children}
      <input
        type="file"
        multiple
        class="unseen"
        onChange={(event) => {
          const files = [...(event.currentTarget.files ?? [])];
          event.currentTarget.value = "";
          void openFiles(files);
        }}
      />
    </label>
  );
}
