// The command line of E2B as a person runs it, with a home of its own.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

export const program = path.join(path.dirname(new URL(import.meta.url).pathname), "node_modules",
                                 ".bin", "e2b");
export const home = fs.mkdtempSync(path.join(os.tmpdir(), "e2b-cli-"));
process.on("exit", () => fs.rmSync(home, { recursive: true, force: true }));

// {code, stdout, stderr}; `input` is typed and then ended.
export function run(words, { input = "", command = [process.execPath, program] } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command[0], [...command.slice(1), ...words], {
      cwd: home,
      // Older versions want a token of a person besides; the key is one.
      env: { ...process.env, HOME: home, NO_COLOR: "1", TERM: "xterm",
             E2B_ACCESS_TOKEN: process.env.E2B_API_KEY } });
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"]) {
      child[name].on("data", (data) => { said[name] += data; });
    }
    const timer = setTimeout(() => child.kill("SIGKILL"), 60_000);
    child.on("error", reject);
    child.on("close", (code) => { clearTimeout(timer); resolve({ code, ...said }); });
    child.stdin.on("error", () => {});
    child.stdin.end(input);
  });
}

// Its output; a failure is one of the check.
export async function e2b(...words) {
  const done = await run(words);
  assert.equal(done.code, 0, `e2b ${words.join(" ")}: ${done.stdout}${done.stderr}`);
  return done.stdout;
}

export const help = async (...words) => (await run([...words, "--help"])).stdout;
