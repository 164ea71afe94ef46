// SPDX-License-Identifier: Apache-2.0
//
// The tests in a browser. They start what they need themselves, one after the other.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/browser/**/*.test.ts"],
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 120_000,
  },
});
