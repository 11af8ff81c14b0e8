// Atoll's JavaScript driver: runs inside the sandbox, talks over descriptor 3.
//
// In: lines "exec ID BASE64(CODE)" and "interrupt". Out: JSON lines. The main thread evaluates
// through its own inspector in REPL mode: let and const can be declared again, await works at the
// top level, the value of the last expression comes back. A worker thread reads the channel, so
// that an interrupt reaches an endless loop: it terminates the execution through the inspector
// from outside, and state stays intact.
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
      const [verb, id, body] = pending.slice(0, end).split(' ');
      pending = pending.slice(end + 1);
      if (verb === 'exec') parentPort.postMessage({ id, body });
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
  globalThis.require = require('module').createRequire(process.cwd() + '/');
  globalThis.module = module;
  globalThis.exports = exports;

  function toJavaScript(code) {
    if (language !== 'typescript') return code;
    const { spawnSync } = require('child_process');
    const made = spawnSync('esbuild', ['--loader=ts', '--log-level=error', '--target=node18'], { input: code, encoding: 'utf8' });
    if (made.error) throw Object.assign(new Error('TypeScript needs the program esbuild in the image (Debian package esbuild)'), { name: 'Unavailable' });
    if (made.status !== 0) throw Object.assign(new Error(made.stderr.trim()), { name: 'SyntaxError' });
    return made.stdout;
  }

  function describe(details) {
    const exception = details.exception || {};
    const shown = exception.description || (exception.value !== undefined ? String(exception.value) : details.text);
    const text = shown.replace(/\n    at Session\.post [^]*$/, '');  // from there on it is this driver
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

  async function execute(id, source) {
    currentId = id;
    let status = 'ok';
    const failed = (error) => {
      const ended = /terminated/i.test(error.traceback);
      status = ended ? 'interrupted' : 'error';
      send({ op: 'error', id, ...(ended ? { name: 'Interrupted', value: 'interrupted', traceback: 'interrupted' } : error) });
    };
    try {
      const answer = await post('Runtime.evaluate', {
        expression: toJavaScript(source), replMode: true, awaitPromise: true, silent: true, objectGroup: 'atoll',
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
    send({ op: 'done', id, status });
  }

  let running = Promise.resolve();
  const worker = new Worker(process.env.ATOLL_DRIVER_FILE || process._eval, { eval: !process.env.ATOLL_DRIVER_FILE });
  worker.on('message', ({ id, body }) => {
    const code = Buffer.from(body || '', 'base64').toString('utf8');
    running = running.then(() => execute(id, code));
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
