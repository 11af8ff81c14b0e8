// The code interpreter: languages, contexts, results, environment, interrupts.
import assert from "node:assert/strict";
import { Sandbox } from "@e2b/code-interpreter";
import { NotFoundError, TimeoutError } from "e2b";
import { API_URL, WHOLE, check, finish, learn, withSandbox } from "./support.mjs";

learn("Sandbox", Sandbox);

const EVERYTHING = `
class Rich:
    def __repr__(self): return "plain"
    def _repr_html_(self): return "<b>html</b>"
    def _repr_markdown_(self): return "**markdown**"
    def _repr_svg_(self): return "<svg/>"
    def _repr_png_(self): return b"png"
    def _repr_jpeg_(self): return b"jpeg"
    def _repr_pdf_(self): return b"pdf"
    def _repr_latex_(self): return "$x$"
    def _repr_json_(self): return {"a": [1, None]}
    def _repr_javascript_(self): return "run()"
    def _repr_mimebundle_(self, **_): return {"application/x-own": "own"}
Rich()`;

await withSandbox(async (sandbox) => {
  await check("Sandbox.runCode, Execution.text: value, output, count", async () => {
    const execution = await sandbox.runCode("import sys; print('out'); print('err', file=sys.stderr); 'va' + 'lue'");
    assert.equal(execution.text, "value");
    assert.equal(execution.results.length, 1);
    assert.equal(execution.results[0].isMainResult, true);
    assert.equal(execution.logs.stdout.join(""), "out\n");
    assert.equal(execution.logs.stderr.join(""), "err\n");
    assert.equal(execution.error, undefined);
    const next = await sandbox.runCode("kept = 41");
    assert.equal(next.executionCount, execution.executionCount + 1);
    assert.equal((await sandbox.runCode("kept + 1")).text, "42");
  });
  await check("Sandbox.runCode(onStdout, onStderr, onResult, onError): as it comes", async () => {
    const seen = [];
    const execution = await sandbox.runCode(
        "import sys\nprint('a')\ndisplay('b')\nprint('ü' * 40000, file=sys.stderr)\n1 / 0", {
          onStdout: (message) => seen.push(`out ${message.line}`),
          onStderr: (message) => seen.push(`err ${message.line.length}`),
          onResult: (result) => seen.push(`result ${result.text}`),
          onError: (error) => seen.push(`error ${error.name} ${error.value}`),
        });
    assert.equal(execution.error.name, "ZeroDivisionError");
    assert.match(execution.error.traceback, /1 \/ 0/);
    assert.equal(execution.logs.stderr.join(""), "ü".repeat(40000) + "\n");
    assert.ok(seen.includes("out a\n") && seen.includes("result b"), seen.join());
    assert.equal(seen.at(-1), "error ZeroDivisionError division by zero");
    assert.equal(execution.results[0].isMainResult, false);
  });
  await check("Sandbox.runCode: every format of a result", async () => {
    const [result] = (await sandbox.runCode(EVERYTHING)).results;
    const base64 = (text) => Buffer.from(text).toString("base64");
    assert.deepEqual(
        [result.text, result.html, result.markdown, result.svg, result.png, result.jpeg, result.pdf,
         result.latex, result.json, result.javascript, result.extra],
        ["plain", "<b>html</b>", "**markdown**", "<svg/>", base64("png"), base64("jpeg"),
         base64("pdf"), "$x$", { a: [1, null] }, "run()", { "application/x-own": "own" }]);
  });
  await check("Result.formats: names them", async () => {
    const [result] = (await sandbox.runCode("import pandas\npandas.DataFrame({'a': [1, 2], 'b': ['x', None]})")).results;
    assert.deepEqual(result.data, { a: [1, 2], b: ["x", null] });
    assert.deepEqual([...result.formats()].filter((each) => each !== "text").sort(), ["data", "html"]);
  });
  await check("Sandbox.runCode(language): JavaScript and TypeScript", async () => {
    for (const language of ["javascript", "js"]) {
      const execution = await sandbox.runCode(
          "import { basename } from 'node:path'; const late = await Promise.resolve(basename('/a/b')); late + process.cwd()",
          { language });
      assert.equal(execution.text, "b/home/user", JSON.stringify(execution.error));
    }
    const typed = await sandbox.runCode("const n: number = 6; n * 7", { language: "ts" });
    assert.equal(typed.text, "42", JSON.stringify(typed.error));
    const wrong = await sandbox.runCode("missing()", { language: "javascript" });
    assert.equal(wrong.error.name, "ReferenceError");
  });
  await check("Sandbox.runCode(language): bash", async () => {
    const execution = await sandbox.runCode("cd /usr; echo $PWD", { language: "bash" });
    assert.equal(execution.logs.stdout.join(""), "/usr\n");
    assert.equal((await sandbox.runCode("pwd", { language: "bash" })).logs.stdout.join(""), "/usr\n");
    assert.equal((await sandbox.runCode("false", { language: "bash" })).error.value, "1");
  });
  await check("Sandbox.runCode(language): R", async () => {
    const execution = await sandbox.runCode("x <- c(1, 2, 3)\nprint('ü')\nmean(x)", { language: "r" });
    assert.equal(execution.text, "[1] 2", JSON.stringify(execution.error));
    assert.equal(execution.logs.stdout.join(""), '[1] "ü"\n');
    const plotted = await sandbox.runCode("plot(x)", { language: "r" });
    assert.ok(plotted.results[0].png);
    assert.match((await sandbox.runCode("stop('no')", { language: "r" })).error.value, /no/);
  });
  await check("Sandbox.runCode(language): one that the image lacks is named", async () => {
    // This package tells the status alone.
    await assert.rejects(sandbox.runCode("1", { language: "java" }), /500/);
    await assert.rejects(sandbox.runCode("1", { language: "klingon" }), /400/);
  });
  await check("Sandbox.runCode(envs): set for one piece of code", async () => {
    const code = { python: "import os; os.getenv('ONE')", javascript: "process.env.ONE",
                   bash: "echo $ONE", r: "cat(Sys.getenv('ONE'))" };
    for (const [language, text] of Object.entries(code)) {
      const show = (execution) => execution.text ?? execution.logs.stdout.join("").trim();
      assert.equal(show(await sandbox.runCode(text, { language, envs: { ONE: "it's 1" } })), "it's 1");
      assert.ok(!show(await sandbox.runCode(text, { language })), language);
    }
    assert.equal((await sandbox.runCode("import os; os.environ['OF_SANDBOX'] + os.getcwd()")).text,
                 "yes/home/user");
  });
  await check("Sandbox.createCodeContext(cwd, language, requestTimeoutMs), Sandbox.listCodeContexts: of their own", async () => {
    const context = await sandbox.createCodeContext({ cwd: "/tmp", requestTimeoutMs: 60_000 });
    assert.deepEqual([context.language, context.cwd], ["python", "/tmp"]);
    assert.equal((await sandbox.runCode("import os; os.getcwd()", { context })).text, "/tmp");
    assert.equal((await sandbox.runCode("kept", { context })).error.name, "NameError");
    const other = await sandbox.createCodeContext({ language: "js" });
    assert.deepEqual([other.language, other.cwd], ["javascript", "/home/user"]);
    const listed = await sandbox.listCodeContexts();
    const ids = listed.map((each) => each.id);
    assert.ok(ids.indexOf(context.id) >= 0 && ids.indexOf(context.id) < ids.indexOf(other.id));
    assert.ok(listed.some((each) => each.language === "javascript" && each.id !== other.id));
    await sandbox.removeCodeContext(other);
    await sandbox.removeCodeContext(context.id);
    assert.ok(!(await sandbox.listCodeContexts()).some((each) => each.id === context.id));
  });
  await check("Sandbox.restartCodeContext(id, language, cwd), Sandbox.removeCodeContext(id, language, cwd): state is gone", async () => {
    const context = await sandbox.createCodeContext();
    await sandbox.runCode("x = 1", { context });
    await sandbox.restartCodeContext(context);
    assert.equal((await sandbox.runCode("x", { context })).error.name, "NameError");
    await sandbox.removeCodeContext(context);
    await assert.rejects(sandbox.runCode("1", { context }), NotFoundError);
    await assert.rejects(sandbox.restartCodeContext(context), NotFoundError);
    await assert.rejects(sandbox.removeCodeContext(context), NotFoundError);
  });
  await check("Sandbox.runCode(context): one after another", async () => {
    const context = await sandbox.createCodeContext();
    const all = await Promise.all([1, 2, 3].map((n) =>
        sandbox.runCode(`import time\nbegan = time.time(); time.sleep(0.2)\n(began, time.time())`, { context })));
    const spans = all.map((each) => JSON.parse(each.text.replace("(", "[").replace(")", "]")))
        .sort((a, b) => a[0] - b[0]);
    assert.ok(spans[0][1] <= spans[1][0] && spans[1][1] <= spans[2][0], JSON.stringify(spans));
    assert.deepEqual(all.map((each) => each.executionCount).sort(), [1, 2, 3]);
  });
  await check("Sandbox.runCode(timeoutMs, requestTimeoutMs): who leaves interrupts", async () => {
    for (const [language, endless, after] of [["python", "while True: pass", "1 + 1"],
                                              ["javascript", "for (;;);", "1 + 1"],
                                              ["bash", "sleep 1000", "echo 2"]]) {
      await assert.rejects(
          sandbox.runCode(endless, { language, timeoutMs: 300, requestTimeoutMs: 10_000 }), TimeoutError);
      const next = await sandbox.runCode(after, { language, timeoutMs: 20_000 });
      assert.equal(next.text ?? next.logs.stdout.join("").trim(), "2", language);
    }
    assert.equal((await sandbox.runCode("kept")).text, "41", "the state stays");
  });
  await check("Sandbox.runCode: an interpreter that dies is told and begins anew", async () => {
    const execution = await sandbox.runCode("import os; os.kill(os.getpid(), 9)");
    assert.match(execution.error.value, /signal 9/);
    assert.equal((await sandbox.runCode("'kept' in dir()")).text, "False");
  });
  await check("Sandbox.runCode: packages that pip has just installed are found", async () => {
    const made = await sandbox.commands.run(
        "d=$(python3 -c 'import site; print(site.getusersitepackages())'); mkdir -p $d; echo 'n = 7' > $d/fresh_one.py");
    assert.equal(made.exitCode, 0);
    assert.equal((await sandbox.runCode("import fresh_one; fresh_one.n")).text, "7");
  });
  await check("Sandbox.runCode: not without the token of the sandbox", async () => {
    const answer = await fetch(`${API_URL}/execute`, {
      method: "POST", body: JSON.stringify({ code: "1" }),
      headers: { "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": "49999", "Content-Type": "application/json" },
    });
    assert.equal(answer.status, 401);
  });
  if (WHOLE) {
    await check("Sandbox.runCode: silence does not end it", async () => {
      assert.equal((await sandbox.runCode("import time; time.sleep(70); 5", { timeoutMs: 120_000 })).text, "5");
    });
  }
}, { template: "code-interpreter-v1", of: Sandbox, envs: { OF_SANDBOX: "yes" } });
finish();
