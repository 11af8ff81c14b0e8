// What the scripts share: checks that count themselves, and a sandbox that goes away.
//
// A check's name says what it is about as Class.method(option, option): the driver reads these names
// to see that no public method of the package is forgotten. Where the installed version does not
// have the method, the check is not applicable, and says so.
import fs from "node:fs";
import { createRequire } from "node:module";
import * as e2b from "e2b";

const require = createRequire(import.meta.url);
export const VERSION = JSON.parse(
    fs.readFileSync(require.resolve("e2b").replace(/dist\/.*$/, "package.json"))).version;
export const WHOLE = process.env.E2B_WHOLE === "1";
export const API_URL = process.env.E2B_API_URL;

const classes = { ...e2b };
const FIELDS = { Commands: "commands", Filesystem: "files", Pty: "pty", Git: "git" };

let passed = 0;

export function since(version) {
  const numbers = (text) => text.split(".").map(Number);
  const [mine, wanted] = [numbers(VERSION), numbers(version)];
  for (let index = 0; index < 3; index += 1) {
    if (mine[index] !== wanted[index]) {
      return mine[index] > wanted[index];
    }
  }
  return true;
}

// Throw it in a check to leave the rest of it out.
export class NotApplicable extends Error {}

function note(check, outcome, reason) {
  if (process.env.E2B_CHECKS) {
    fs.appendFileSync(process.env.E2B_CHECKS, JSON.stringify({ check, outcome, reason }) + "\n");
  }
}

// Classes that versions may lack. Others that are not exported are met as objects: unknown, and so
// taken to be complete, until a script has one to learn from.
const OPTIONAL = new Set(["E2B", "Secret", "Volume"]);

// Tells the class of an object, under the name that checks use; for packages built on `e2b` too.
export function learn(name, object) {
  classes[name] = typeof object === "function" ? object : object.constructor;
  return object;
}

// Every "Class.method" of a name that this version does not have.
function missing(name) {
  const absent = [];
  for (const [, owner, method] of name.matchAll(/\b([A-Z]\w*)\.(\w+)/g)) {
    const known = classes[owner];
    const found = known && (method in known || (known.prototype && method in known.prototype));
    if (!found && (known || OPTIONAL.has(owner))) {
      absent.push(`${owner}.${method}`);
    }
  }
  return absent;
}

// A check that fails is told and does not stop the others. `options.since`: the first version that
// can do it.
export async function check(name, body, options = {}) {
  const absent = missing(name);
  if (absent.length > 0 || (options.since && !since(options.since))) {
    note(name, "not applicable", absent.length > 0 ? `this version has no ${absent[0]}`
                                                   : `needs ${options.since}`);
    return;
  }
  try {
    await body();
    passed += 1;
    note(name, "passed", "");
  } catch (error) {
    if (error instanceof NotApplicable) {
      note(name, "not applicable", error.message);
      return;
    }
    console.error(`FAILED ${name}: ${error.stack ?? error}`);
    note(name, "failed", `${error.message ?? error}`.split("\n")[0]);
    process.exitCode = 1;
  }
}

// The last line of every script.
export function finish() {
  console.log(`${passed} checks passed`);
  process.exit();
}

export async function withSandbox(body, options = {}) {
  const { template, of = e2b.Sandbox, ...rest } = options;
  const settings = { timeoutMs: 300_000, ...rest };
  const sandbox = await (template ? of.create(template, settings) : of.create(settings));
  for (const [name, field] of Object.entries(FIELDS)) {
    if (sandbox[field] || name === "Git") {
      learn(name, sandbox[field] ?? {});
    }
  }
  try {
    return await body(sandbox);
  } finally {
    await sandbox.kill();
  }
}

// Older objects do not say whether there was something to kill.
export const killed = (answer) => answer === true || (answer === undefined && !since("2.45.0"));

// Polls for a fact that nothing announces.
export async function until(condition, what, seconds = 30) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const value = await condition();
    if (value) {
      return value;
    }
    if (Date.now() > end) {
      throw new Error(`still not so after ${seconds} s: ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

// A Date that is that many seconds from now, `slack` more or less.
export function isAbout(date, seconds, slack = 30) {
  return Math.abs((new Date(date).getTime() - Date.now()) / 1000 - seconds) < slack;
}
