// SPDX-License-Identifier: Apache-2.0
//
// Names of the settings that replays compare.
import type { Trial } from "../api/scene.ts";

export function settingTitle(other: Trial): string {
  if (other.engine === "paged")
    return `Ashlar's paged engine${other.conf ? `, ${other.conf}` : ""}`;
  if (other.engine === "async")
    return `the driver's own pool${other.conf ? `, ${other.conf}` : ""}`;
  return other.conf || "defaults";
}
