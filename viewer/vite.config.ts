// SPDX-License-Identifier: Apache-2.0
//
// Builds the page into one file, dist/index.html, that loads nothing else. `ashlar view` serves it
// unchanged; a self-contained report is the same file with embedded responses.
import { defineConfig } from "vitest/config";
import { viteSingleFile } from "vite-plugin-singlefile";

export default defineConfig({
  base: "./",
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  esbuild: { jsx: "automatic", jsxImportSource: "preact" },
  build: { target: "es2022", reportCompressedSize: false },
  test: { include: ["tests/unit/**/*.test.ts"] },
});
