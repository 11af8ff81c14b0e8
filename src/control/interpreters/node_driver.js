// Atoll's JavaScript driver: runs inside the sandbox, talks over descriptor 3.
//
// In: lines "exec ID BASE64(CODE) [ENVIRONMENT]", "interrupt", "resize ROWS COLUMNS". Out: JSON lines. The main thread evaluates
// through its own inspector in REPL mode: let and const can be declared again, await works at the
// top level, the value of the last expression comes back. A worker thread reads the channel, so
// that an interrupt reaches an endless loop: it terminates the execution through the inspector
// from outside, and state stays intact. Imports become dynamic ones, which is all that evaluated
// code can do; TypeScript is stripped first, and positions are mapped back to what was written.
(() => {  // what is declared here must not be in the way of the code
'use strict';
const { Worker, isMainThread, parentPort } = require('worker_threads');
const inspector = require('inspector');
const fs = require('fs');

const CHANNEL = 3;

function readChannel() {
  const session = new inspector.Session();
  session.connectToMainThread();
  let pending = '';
  const input = fs.createReadStream(null, { fd: CHANNEL, autoClose: false });
  input.setEncoding('utf8');
  input.on('data', (chunk) => {
    pending += chunk;
    let end;
    while ((end = pending.indexOf('\n')) >= 0) {
      const [verb, id, body, environment] = pending.slice(0, end).split(' ');
      pending = pending.slice(end + 1);
      if (verb === 'exec' || verb === 'resize') parentPort.postMessage({ verb, id, body, environment });
      if (verb === 'interrupt') session.post('Runtime.terminateExecution', () => {});
    }
  });
  input.on('end', () => process.exit(0));
}

function main() {
  const util = require('util');
  const language = process.env.ATOLL_LANGUAGE || 'javascript';
  const session = new inspector.Session();
  session.connect();
  const post = (method, parameters) => new Promise((resolve, reject) => {
    session.post(method, parameters, (error, answer) => (error ? reject(error) : resolve(answer)));
  });

  function send(message) {
    let bytes = Buffer.from(JSON.stringify(message) + '\n');
    while (bytes.length > 0) {
      try {
        bytes = bytes.subarray(fs.writeSync(CHANNEL, bytes));
      } catch (error) {
        if (error.code !== 'EAGAIN') throw error;
      }
    }
  }

  const MIME = ['text/html', 'text/markdown', 'image/svg+xml', 'image/png', 'image/jpeg', 'text/latex', 'application/json'];
  function makeBundle(value) {
    const bundle = { 'text/plain': util.inspect(value, { depth: 4 }) };
    if (value !== null && typeof value === 'object') {
      for (const mime of MIME) if (typeof value[mime] === 'string') bundle[mime] = value[mime];
    }
    return bundle;
  }

  let currentId = null;
  const hidden = { value: undefined };
  Object.defineProperty(globalThis, '__atollKeep', { enumerable: false, value: (value) => { hidden.value = value; } });
  globalThis.display = (value) => send({ op: 'display', id: currentId, data: makeBundle(value) });
  const path = require('path');
  const modules = require('module');
  // A path is meant from the current directory, not from where the interpreter was started.
  const importModule = (name) => import(/^(\.{0,2}\/|\.{1,2}$)/.test(name)
    ? require('url').pathToFileURL(path.resolve(name)).href : name);
  Object.defineProperty(globalThis, '__atollImport', { enumerable: false, value: importModule });
  globalThis.require = modules.createRequire(process.cwd() + '/');
  globalThis.module = module;
  globalThis.exports = exports;

  const sources = new Map();  // name of a cell -> its source map
  const MAX_SOURCES = 1000;
  const TYPESCRIPT_OPTIONS = JSON.stringify({ compilerOptions: {  // an import may be for a later cell
    preserveValueImports: true, importsNotUsedAsValues: 'preserve', verbatimModuleSyntax: true } });

  function hasEsbuild() {
    return (process.env.PATH || '').split(':').some((directory) => {
      try { fs.accessSync(path.join(directory, 'esbuild'), fs.constants.X_OK); return true; } catch { return false; }
    });
  }

  function withEsbuild(name, code) {
    const made = require('child_process').spawnSync('esbuild', ['--loader=ts', '--log-level=error', '--target=node18',
      '--sourcemap=inline', `--sourcefile=${name}`, `--tsconfig-raw=${TYPESCRIPT_OPTIONS}`], { input: code, encoding: 'utf8' });
    if (made.error) throw made.error;
    if (made.status !== 0) {
      const told = made.stderr.trim().replace(/^\S+ \[ERROR\] /, '');
      throw Object.assign(new Error(told.split('\n')[0]), { name: 'SyntaxError', stack: `SyntaxError: ${told}` });
    }
    const [script, map] = made.stdout.split('//# sourceMappingURL=data:application/json;base64,');
    if (sources.size >= MAX_SOURCES) sources.delete(sources.keys().next().value);
    sources.set(name, new modules.SourceMap(JSON.parse(Buffer.from(map, 'base64').toString('utf8'))));
    return script;
  }

  let stripTypes = (name, code) => code;
  if (language === 'typescript') {
    if (hasEsbuild()) {
      stripTypes = withEsbuild;
    } else if (modules.stripTypeScriptTypes) {
      stripTypes = (name, code) => modules.stripTypeScriptTypes(code, { mode: 'transform' });
    } else {
      process.stderr.write(`TypeScript needs the program esbuild in the image (in Debian: apt-get install esbuild) or Node.js 22.13 or later; this is ${process.version}\n`);
      process.exit(1);
    }
  }

  // Strings and comments are matched so that nothing in them is.
  const IMPORTS = new RegExp([
    /"(?:\\.|[^"\\\n])*"/, /'(?:\\.|[^'\\\n])*'/, /`(?:\\.|[^`\\])*`/, /\/\/[^\n]*/, /\/\*[^]*?\*\//,
    /(?<dynamic>(?<![.\w$])import\s*(?=\())/,
    /(?<=^|;)[ \t]*import\b\s*(?:(?:(?<base>[\w$]+)\s*,?\s*)?(?:\*\s*as\s+(?<space>[\w$]+)|\{(?<names>[^}]*)\})?\s*from\s*)?(?<quote>["'])(?<module>[^"'\n]+)\k<quote>[ \t]*;?/,
    /(?<=^|;)[ \t]*(?<exported>export\s+)(?=(?:const|let|var|function|class|async)\b)/,
  ].map((each) => each.source).join('|'), 'gm');

  function makeImportsDynamic(code) {
    return code.replace(IMPORTS, (...found) => {
      const [text, { dynamic, base, space, names, module, exported }] = [found[0], found.at(-1)];
      if (dynamic) return '__atollImport';
      if (exported) return text.replace(exported, '');
      if (!module) return text;
      const parts = (names || '').split(',').map((each) => each.trim().replace(/\s+as\s+/, ': ')).filter(Boolean);
      if (base) parts.unshift(`default: ${base}`);
      const value = `await __atollImport(${JSON.stringify(module)})`;
      const lines = '\n'.repeat(text.split('\n').length - 1);  // so that positions stay
      if (space) return `const ${space} = ${value}${base ? `, { default: ${base} } = ${space}` : ''};${lines}`;
      return `${parts.length > 0 ? `const { ${parts.join(', ')} } = ` : ''}${value};${lines}`;
    });
  }

  let cells = 0;
  function toScript(code) {
    cells += 1;
    const name = `cell-${cells}.${language === 'typescript' ? 'ts' : 'js'}`;
    return `${makeImportsDynamic(stripTypes(name, code))}\n//# sourceURL=${name}`;
  }

  function asWritten(text) {
    return text.replace(/(cell-\d+\.ts):(\d+):(\d+)/g, (place, name, line, column) => {
      const entry = sources.has(name) ? sources.get(name).findEntry(Number(line) - 1, Number(column) - 1) : {};
      return entry.originalLine === undefined ? place : `${name}:${entry.originalLine + 1}:${entry.originalColumn + 1}`;
    });
  }

  function describe(details) {
    const exception = details.exception || {};
    const shown = exception.description || (exception.value !== undefined ? String(exception.value) : details.text);
    const text = asWritten(shown.replace(/\n    at Session\.post [^]*$/, ''));  // from there on it is this driver
    const name = exception.className || (text.match(/^(\w+):/) || [])[1] || 'Error';
    return { name, value: text.split('\n')[0].replace(/^\w+: /, ''), traceback: text };
  }

  // The value itself, fetched from the inspector's handle, so that it is shown as Node shows it.
  async function valueOf(result) {
    if (!result.objectId) {
      return result.unserializableValue ? eval(`(${result.unserializableValue})`) : result.value;
    }
    const keep = await post('Runtime.evaluate', { expression: '__atollKeep' });
    await post('Runtime.callFunctionOn', {
      objectId: keep.result.objectId, arguments: [{ objectId: result.objectId }],
      functionDeclaration: 'function (value) { this(value); }',
    });
    return hidden.value;
  }

  function setEnvironment(words) {
    const before = {};
    for (const pair of (words || '').split(',').filter(Boolean)) {
      const [name, value] = pair.split(':').map((each) => Buffer.from(each, 'base64').toString('utf8'));
      before[name] = process.env[name];
      process.env[name] = value;
    }
    return before;
  }

  function restoreEnvironment(before) {
    for (const [name, value] of Object.entries(before)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }

  let executions = 0;
  async function execute(id, source, environment) {
    currentId = id;
    executions += 1;
    let status = 'ok';
    const before = setEnvironment(environment);
    const failed = (error) => {
      const ended = /terminated/i.test(error.traceback);
      status = ended ? 'interrupted' : 'error';
      send({ op: 'error', id, ...(ended ? { name: 'Interrupted', value: 'interrupted', traceback: 'interrupted' } : error) });
    };
    try {
      const answer = await post('Runtime.evaluate', {
        expression: toScript(source), replMode: true, awaitPromise: true, silent: true, objectGroup: 'atoll',
      });
      if (answer.exceptionDetails) {
        failed(describe(answer.exceptionDetails));
      } else if (answer.result.type !== 'undefined') {
        send({ op: 'result', id, data: makeBundle(await valueOf(answer.result)) });
      }
    } catch (error) {
      failed({ name: error.name || 'Error', value: error.message, traceback: String(error.stack || error.message) });
    }
    hidden.value = undefined;
    session.post('Runtime.releaseObjectGroup', { objectGroup: 'atoll' }, () => {});
    restoreEnvironment(before);
    send({ op: 'done', id, status, count: executions });
  }

  let running = Promise.resolve();
  const worker = new Worker(process.env.ATOLL_DRIVER_FILE || process._eval, { eval: !process.env.ATOLL_DRIVER_FILE });
  function resize(rows, columns) {
    Object.assign(process.env, { LINES: rows, COLUMNS: columns });
    Object.assign(process.stdout, { rows: Number(rows), columns: Number(columns) });
    process.stdout.emit('resize');
  }
  worker.on('message', ({ verb, id, body, environment }) => {
    if (verb === 'resize') {
      running = running.then(() => resize(id, body));
      return;
    }
    const code = Buffer.from(body || '', 'base64').toString('utf8');
    running = running.then(() => execute(id, code, environment));
  });
  worker.on('error', (error) => { process.stderr.write(`${error && error.stack}\n`); process.exit(70); });
  worker.on('exit', () => process.exit(0));
  // What the code leaves unhandled is its own affair and must not end the interpreter.
  process.on('unhandledRejection', (reason) => process.stderr.write(`Unhandled rejection: ${util.inspect(reason)}\n`));
  process.on('uncaughtException', (error) => process.stderr.write(`Uncaught: ${(error && error.stack) || error}\n`));
  process.on('SIGINT', () => {});
  send({ op: 'ready', language, version: process.version });
}

if (isMainThread) main(); else readChannel();
})();
