// SPDX-License-Identifier: Apache-2.0
//
// Light or dark theme: the system's preference unless the user has chosen one.
import { computed, effect, signal } from "@preact/signals";
import type { Theme } from "./model/colors.ts";

const kStorageKey = "ashlar-theme";

const chosen = signal<Theme | null>(readChosen());
const system = signal<Theme>("light");

export const theme = computed<Theme>(() => chosen.value ?? system.value);

export function switchTheme(): void {
  chosen.value = theme.value === "light" ? "dark" : "light";
  try {
    localStorage.setItem(kStorageKey, chosen.value);
  } catch {
    // Browsers may not persist storage for local files; the choice then lasts as long as the page.
  }
}

export function followTheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  system.value = dark.matches ? "dark" : "light";
  dark.addEventListener("change", () => (system.value = dark.matches ? "dark" : "light"));
  effect(() => {
    document.documentElement.dataset.theme = theme.value;
  });
}

function readChosen(): Theme | null {
  try {
    const kept = localStorage.getItem(kStorageKey);
    return kept === "light" || kept === "dark" ? kept : null;
  } catch {
    return null;
  }
}
