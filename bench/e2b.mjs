// Measures a server through the official E2B packages and prints one JSON object of milliseconds.
//   node e2b.mjs ROUNDS
import { Sandbox } from "e2b";
import { Sandbox as Interpreter } from "@e2b/code-interpreter";

const ROUNDS = Number(process.argv[2] ?? 200);
const FEW = Math.max(3, Math.ceil(ROUNDS / 20));
const TIMEOUT = { timeoutMs: 300_000 };

function summary(values) {
  const sorted = [...values].sort((left, right) => left - right);
  // Nearest rank, as in suite/stats.py: a value that was measured.
  const at = (share) => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];
  return { count: sorted.length, p50: at(0.5), p90: at(0.9), p99: at(0.99), min: sorted[0],
           spread: (at(0.75) - at(0.25)) / at(0.5) };
}

// `action` is timed, `after` is not; the first tenth warms up.
async function measured(rounds, action, after) {
  const values = [];
  const warm = Math.ceil(rounds / 10);
  for (let round = 0; round < rounds + warm; round += 1) {
    const begun = performance.now();
    const made = await action();
    const took = performance.now() - begun;
    await after(made);
    if (round >= warm) {
      values.push(took);
    }
  }
  return summary(values);
}

const results = {};
const kill = (sandbox) => sandbox.kill();
results["create -> first commands.run output"] = await measured(ROUNDS, async () => {
  const sandbox = await Sandbox.create(TIMEOUT);
  const result = await sandbox.commands.run("echo out");
  if (result.stdout !== "out\n") {
    throw new Error(`wrong output: ${result.stdout}`);
  }
  return sandbox;
}, kill);
results["create"] = await measured(ROUNDS, () => Sandbox.create(TIMEOUT), kill);
results["create -> runCode result"] = await measured(ROUNDS, async () => {
  const sandbox = await Interpreter.create(TIMEOUT);
  const execution = await sandbox.runCode("6 * 7");
  if (execution.text !== "42") {
    throw new Error(`wrong result: ${JSON.stringify(execution)}`);
  }
  return sandbox;
}, kill);
results["20 creates at once, all ready"] = await measured(FEW,
    () => Promise.all(Array.from({ length: 20 }, () => Sandbox.create(TIMEOUT))),
    (made) => Promise.all(made.map(kill)));

const sandbox = await Sandbox.create(TIMEOUT);
try {
  await sandbox.commands.run("sleep 3600", { background: true, timeoutMs: 0 });
  results["commands.run in a running sandbox"] = await measured(ROUNDS,
      () => sandbox.commands.run("true"), () => {});
  results["fork x10, all answer a command"] = await measured(FEW, async () => {
    const forks = await sandbox.fork({ count: 10, ...TIMEOUT });
    await Promise.all(forks.map((fork) => fork.commands.run("true")));
    return forks;
  }, (forks) => Promise.all(forks.map(kill)));
  const resumes = [];
  results["pause"] = await measured(FEW * 2, () => sandbox.pause(), async () => {
    const begun = performance.now();
    await sandbox.connect(TIMEOUT);
    await sandbox.commands.run("true");
    resumes.push(performance.now() - begun);
  });
  results["resume -> commands.run"] = summary(resumes.slice(Math.ceil(FEW / 5)));
} finally {
  await sandbox.kill();
}
console.log(JSON.stringify(results));
process.exit();
