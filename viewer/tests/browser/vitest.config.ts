// SPDX-License-Identifier: Apache-2.0
//
// Configuration of the browser tests, which run one file at a time and start their own servers.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/browser/**/*.test.ts"],
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 120_000,
  },
});
