// What the scripts share: a client of the official SDK, and checks that count themselves.
import { Client } from "sandbox0";

export const client = new Client({
  token: process.env.SANDBOX0_TOKEN,
  baseUrl: process.env.SANDBOX0_BASE_URL,
});

let passed = 0;

// A check that fails is told and does not stop the others.
export async function check(what, body) {
  try {
    await body();
    passed += 1;
  } catch (error) {
    console.error(`FAILED ${what}: ${error.stack}\n${error.body ?? ""}`);
    process.exitCode = 1;
  }
}

// The last line of every script.
export function finish() {
  console.log(`${passed} checks passed`);
  process.exit();
}

export async function withSandbox(body, config = { hardTtl: 600 }) {
  const sandbox = await client.sandboxes.claim("default", config);
  try {
    return await body(sandbox);
  } finally {
    await client.sandboxes.delete(sandbox.id);
  }
}

// A Date that is that many seconds from now, a minute more or less.
export function isAbout(date, seconds) {
  return Math.abs((date.getTime() - Date.now()) / 1000 - seconds) < 60;
}

// All output of a stream by source, until the process has ended.
export async function heard(stream) {
  const bySource = {};
  for await (const output of stream.outputs()) {
    bySource[output.source] = (bySource[output.source] ?? "") + output.data;
  }
  return bySource;
}

// Reads outputs until their text contains `wanted`; the rest stays for the next call.
export function reader(stream) {
  const outputs = stream.readable.getReader();
  let text = "";
  return async function until(wanted) {
    while (!text.includes(wanted)) {
      const { done, value } = await outputs.read();
      if (done) {
        throw new Error(`the stream ended before ${JSON.stringify(wanted)}: ${text}`);
      }
      text += value.data;
    }
    const end = text.indexOf(wanted) + wanted.length;
    const found = text.slice(0, end);
    text = text.slice(end);
    return found;
  };
}
