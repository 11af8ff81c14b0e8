// Large things: files, directories, output; and clients that vanish in the middle of them.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import http from "node:http";
import { API_URL, check, finish, until, WHOLE, withSandbox } from "./support.mjs";

const MIB = 1 << 20;
const FILE_BYTES = (WHOLE ? 2048 : 192) * MIB;
const OUTPUT_BYTES = (WHOLE ? 1024 : 64) * MIB;
const FILES = WHOLE ? 10_000 : 2000;

// Content that differs from piece to piece, made again whenever it is needed.
function* pieces(total) {
  const piece = Buffer.alloc(MIB);
  for (let sent = 0, number = 0; sent < total; sent += MIB, number += 1) {
    piece.fill(`${number} is the number of this piece; `);
    yield Uint8Array.from(piece);
  }
}
function hashOf(total) {
  const hash = createHash("sha256");
  for (const piece of pieces(total)) {
    hash.update(piece);
  }
  return hash.digest("hex");
}

await withSandbox(async (sandbox) => {
  const { commands, files } = sandbox;
  const expected = hashOf(FILE_BYTES);
  await check("Filesystem.write: a large stream up", async () => {
    const content = pieces(FILE_BYTES);
    await files.write("/home/user/large", new ReadableStream({
      pull(controller) {
        const { done, value } = content.next();
        if (done) {
          controller.close();
        } else {
          controller.enqueue(value);
        }
      },
    }), { requestTimeoutMs: 0, useOctetStream: true });
    const result = await commands.run("sha256sum large; stat -c %s large", { timeoutMs: 300_000 });
    assert.equal(result.stdout, `${expected}  large\n${FILE_BYTES}\n`);
  }, { since: "2.45.0" });
  await check("Filesystem.read(format): a large stream down", async () => {
    const hash = createHash("sha256");
    let size = 0;
    for await (const piece of await files.read("/home/user/large",
                                               { format: "stream", requestTimeoutMs: 60_000 })) {
      hash.update(piece);
      size += piece.length;
    }
    assert.equal(size, FILE_BYTES);
    assert.equal(hash.digest("hex"), expected);
    await files.remove("large");
  }, { since: "2.45.0" });
  await check("Filesystem.list, Filesystem.remove: a large directory", async () => {
    await commands.run(`mkdir many && cd many && seq ${FILES} | xargs -P 2 touch`,
                       { timeoutMs: 120_000 });
    const entries = await files.list("many");
    assert.equal(entries.length, FILES);
    assert.equal(new Set(entries.map((each) => each.name)).size, FILES);
    await files.remove("many");
    assert.equal(await files.exists("many"), false);
  });
  await check("Commands.run(onStdout): large binary output, whole", async () => {
    // Bytes that are not text count as replacements; only their number can be compared.
    let characters = 0;
    const handle = await commands.run(
        `head -c ${OUTPUT_BYTES} /dev/zero | tr '\\0' '\\377'`,
        { background: true, timeoutMs: 0, onStdout: (data) => { characters += data.length; } });
    // The SDK keeps all output in a string, which has a limit of its own: look at the pieces.
    Object.defineProperty(handle, "_stdout", { get: () => "", set() {} });
    const result = await handle.wait();
    assert.equal(result.exitCode, 0);
    assert.equal(characters, OUTPUT_BYTES);
  });

  const raw = (method, path, headers, onAnswer) => {
    const request = http.request(new URL(path, API_URL), { method, headers: {
      "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": "49983",
      "X-Access-Token": sandbox.envdAccessToken ?? "", ...headers } }, onAnswer);
    request.on("error", () => {});
    return request;
  };
  // A command without the SDK: `onData` gets the bytes of the answer, and what closes it.
  const start = (command, headers, onData) => {
    const message = Buffer.from(JSON.stringify(
        { process: { cmd: "/bin/bash", args: ["-l", "-c", command] } }));
    const length = Buffer.alloc(5);
    length.writeUInt32BE(message.length, 1);
    const envelope = Buffer.concat([length, message]);
    raw("POST", "/process.Process/Start", { "Content-Type": "application/connect+json",
      "Connect-Protocol-Version": "1", "Content-Length": envelope.length, ...headers }, (answer) => {
      answer.on("error", () => {});
      answer.on("data", (data) => onData(data, () => answer.destroy()));
    }).end(envelope);
  };
  await check("Commands.run: a client that vanishes; the command runs on", async () => {
    await new Promise((resolve) => {
      start("for n in $(seq 500); do echo $n; sleep 0.01; done; touch finished", {},
            (data, close) => { close(); resolve(); });
    });
    assert.equal((await commands.list()).length, 1);
    await until(() => files.exists("finished"), "the command came to its end", 60);
  });
  await check("Commands.run(timeoutMs): six hours, and signs of life while nothing is said", async () => {
    let text = "";
    let end = () => {};
    start("sleep 30", { "Connect-Timeout-Ms": `${6 * 3600 * 1000}`, "Keepalive-Ping-Interval": "1" },
          (data, close) => { text += data; end = close; });
    await until(() => text.split('"keepalive"').length > 3, `three keepalives in ${text}`);
    end();
    const [{ pid }] = await commands.list();
    assert.equal(await commands.kill(pid), true);
    const handle = await commands.run("sleep 0.2; echo long", { background: true,
                                                                timeoutMs: 6 * 3600 * 1000 });
    assert.equal((await handle.wait()).stdout, "long\n");
  });
  await check("Filesystem.write: a client that vanishes leaves the old file or the whole new one",
      async () => {
    await files.write("precious", "old");
    await new Promise((resolve) => {
      const request = raw("POST", "/files?path=/home/user/precious&username=user", {
        "Content-Type": "application/octet-stream", "Content-Length": 8 * MIB });
      request.write(Buffer.alloc(4 * MIB), () => { request.destroy(); resolve(); });
    });
    await commands.run("sleep 0.5");
    assert.equal(await files.read("precious"), "old");
    assert.equal((await commands.run("ls -A | grep -c precious")).stdout, "1\n");
  });
  await check("Filesystem.read, Filesystem.watchDir: clients that vanish leave nothing behind",
      async () => {
    await commands.run("head -c 50000000 /dev/zero >some");
    await Promise.all(Array.from({ length: 20 }, () => new Promise((resolve) => {
      raw("GET", "/files?path=/home/user/some&username=user", {}, (answer) => {
        answer.on("error", () => {});
        answer.once("data", () => { answer.destroy(); resolve(); });
      }).end();
    })));
    assert.equal((await commands.run("echo well")).stdout, "well\n");
    assert.equal((await commands.list()).length, 0);
  });
}, { timeoutMs: 3_000_000 });
finish();
