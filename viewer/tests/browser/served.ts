// SPDX-License-Identifier: Apache-2.0
//
// The basis of the browser tests: `ashlar view` on bundled traces, a browser, and a page whose
// requests and errors are recorded.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { type Browser, chromium, type Page } from "playwright-core";
import { drawn } from "./plot.ts";

export const kRoot = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../..");
export const kTool = process.env.ASHLAR ?? path.join(kRoot, "build/release/bin/ashlar");
export const kBuiltPage = path.join(kRoot, "viewer/dist/index.html");
export const kPictures = path.join(kRoot, "build/viewer/pictures");

export function traceFile(name: string): string {
  return path.join(kRoot, "tests/golden/traces", name);
}

export function traceFiles(names: string[]): string[] {
  return names.map((name) => traceFile(`${name}.pickle.xz`));
}

export interface Served {
  address: string;
  tool: ChildProcess;
  stop(): void;
}

const started = new Set<ChildProcess>();

// Stops the servers that failed tests left running.
export function stopAll(): void {
  for (const tool of started) tool.kill();
  started.clear();
}

// Returns the path of a recording of a training program, with Python stacks.
export function recordingFile(name: string): string {
  return path.join(kRoot, "tests/golden/recordings", `${name}.pickle.xz`);
}

// Starts `ashlar view` with these files and options, and waits for its address. The tool serves the
// page in viewer/dist instead of the embedded page. It starts a browser only if `withBrowser`, the
// environment of the tool, is given.
export async function serve(args: string[], withBrowser?: NodeJS.ProcessEnv): Promise<Served> {
  const quietly = withBrowser ? [] : ["--no-browser"];
  const tool = spawn(kTool, ["view", ...quietly, "--page", kBuiltPage, ...args], {
    env: withBrowser ?? process.env,
  });
  started.add(tool);
  let errors = "";
  tool.stderr.on("data", (text) => (errors += text));
  const address = await new Promise<string>((resolve, reject) => {
    let output = "";
    tool.stdout.on("data", (text) => {
      output += text;
      const found = /http:\/\/\S+/.exec(output);
      if (found) resolve(found[0]);
    });
    tool.on("error", reject);
    tool.on("exit", (code) => reject(new Error(`ashlar view ended with ${code}: ${errors}`)));
  });
  return { address, tool, stop: () => void tool.kill() };
}

// Writes a self-contained file with `ashlar view FILE -o OUT`.
export function writeReport(file: string, out: string): void {
  mkdirSync(path.dirname(out), { recursive: true });
  execFileSync(kTool, ["view", "--page", kBuiltPage, file, "-o", out], { stdio: "pipe" });
}

export function startBrowser(): Promise<Browser> {
  const places = [process.env.CHROMIUM ?? "", "/usr/bin/chromium", "/usr/bin/chromium-browser"];
  const executablePath = places.find((place) => place !== "" && existsSync(place));
  if (!executablePath) throw new Error("no chromium: install the package, or set CHROMIUM");
  // Root cannot use the sandbox. Without a GPU, SwiftShader renders WebGL.
  const args = [
    "--enable-unsafe-swiftshader",
    ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
  ];
  return chromium.launch({ executablePath, args });
}

export interface Watched {
  page: Page;
  requests: string[];
  errors: string[];
}

export async function openPage(
  browser: Browser,
  theme: "light" | "dark" = "light",
): Promise<Watched> {
  const page = await browser.newPage({
    viewport: { width: 1360, height: 800 },
    colorScheme: theme,
  });
  page.setDefaultTimeout(60_000); // replays for the causes are slow on a busy machine
  const watched: Watched = { page, requests: [], errors: [] };
  page.on("request", (request) => watched.requests.push(request.url()));
  page.on("pageerror", (error) => watched.errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") watched.errors.push(message.text());
  });
  return watched;
}

export const kSettledSelectors = {
  timeline: '.timeline[data-settled="true"]',
  map: '.map[data-settled="true"]',
  flame: ".flame-box",
  table: ".table .row[data-id]",
  causes: ".alternatives",
  oom: ".report.oom, .empty:not([data-loading])",
  leaks: ".report.leaks, .empty:not([data-loading])",
  source: ".source .row[data-line], .empty:not([data-loading])",
  compare: ".ranks",
} as const;

export type ViewName = keyof typeof kSettledSelectors;
export const kViewNames = Object.keys(kSettledSelectors) as ViewName[];

// Shows a view and waits until it has loaded its data.
export async function show(page: Page, address: string, hash: string): Promise<void> {
  const view = new URLSearchParams(hash).get("view") as ViewName;
  await page.goto(`${address}#${hash}`);
  await page.waitForSelector(kSettledSelectors[view]);
  await page.waitForSelector(view === "compare" ? ".ranks" : ".moment .figures");
  if (view !== "timeline") return;
  // The regions move the timeline down when they arrive.
  await page.waitForSelector("[data-regions-loading]", { state: "detached" });
  await drawn(page);
}

export async function takePicture(page: Page, name: string): Promise<string> {
  mkdirSync(kPictures, { recursive: true });
  const file = path.join(kPictures, `${name}.png`);
  await page.screenshot({ path: file });
  return file;
}

// Returns a word of the URL, which is updated after a delay.
export async function urlWord(page: Page, name: string): Promise<string | null> {
  await page.waitForSelector('html[data-url="current"]');
  return page.evaluate((word) => new URLSearchParams(location.hash.slice(1)).get(word), name);
}

// Returns the entries that the URL says are shown.
export async function spanOf(page: Page): Promise<number[]> {
  return (await urlWord(page, "span"))!.split("-").map(Number);
}
